//! Whatever was on a machine, and whatever plans did to it: after a reset every byte is as it was.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use capstan_agent::real::Linux;
use capstan_agent::store::DiskStore;
use capstan_agent::{Engine, Journal, Reset};
use capstan_plan::{Action, Mode, Phase, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{TestClock, Verbs, file, folder, plan, shut, verified};
use tempfile::TempDir;

/// Every path with its mode and, if it is a file, its content.
fn tree(root: &Path) -> BTreeMap<String, (u32, Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let content = about.is_file().then(|| fs::read(&path).unwrap());
            found.insert(path.to_str().unwrap().to_owned(), (about.permissions().mode(), content));
            if about.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

/// Short names, so that they collide often.
fn place() -> impl Strategy<Value = String> {
    vec("[abc]", 1..4).prop_map(|parts| format!("/{}", parts.join("/")))
}

#[derive(Clone, Debug)]
struct Thing {
    at: String,
    /// A folder if there is none.
    content: Option<String>,
    mode: u32,
}

fn thing() -> impl Strategy<Value = Thing> {
    let mode = prop_oneof![Just(0o755), Just(0o700), Just(0o640), Just(0o600)];
    // Everything but the sticky bits; the owner may always read, or the test could not look.
    (place(), proptest::option::of("[a-z]{0,20}"), mode).prop_map(|(at, content, mode)| Thing {
        mode: if content.is_none() { mode | 0o700 } else { mode },
        at,
        content,
    })
}

fn put(root: &Path, thing: &Thing) {
    let path = root.join(&thing.at[1..]);
    if fs::create_dir_all(path.parent().unwrap()).is_err() || path.exists() {
        return;
    }
    match &thing.content {
        Some(content) => fs::write(&path, content).unwrap(),
        None => fs::create_dir(&path).unwrap(),
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(thing.mode)).unwrap();
}

fn step((at, thing): (usize, &Thing)) -> Step {
    let step = match &thing.content {
        Some(content) => file(&format!("s{at}"), &thing.at, content),
        None => folder(&format!("s{at}"), &thing.at),
    };
    step.edit(|step| {
        let mode = Mode::new(thing.mode).unwrap();
        match &mut step.action {
            Action::File(file) => file.mode = mode,
            Action::Directory(folder) => folder.mode = mode,
            other => panic!("{other:?}"),
        }
    })
}

async fn live(root: &Path, state: &Path, revisions: &[Vec<Thing>]) -> (Vec<Phase>, Reset) {
    let mut phases = Vec::new();
    for (revision, things) in (1..).zip(revisions) {
        let plan = plan(revision, things.iter().enumerate().map(step).collect());
        // Plans that contradict themselves are refused before they get here.
        if plan.clone().seal().is_err() {
            continue;
        }
        // A new life for every plan.
        let journal = Journal::open(DiskStore::open(state).await.unwrap()).await.unwrap();
        let mut engine = Engine::new(Linux::rooted(root).unwrap(), journal, TestClock::new());
        phases.push(
            {
                let plan = verified(plan);
                engine.apply(&plan, &shut(&plan), |_| ()).await
            }
            .unwrap()
            .phase,
        );
    }
    let journal = Journal::open(DiskStore::open(state).await.unwrap()).await.unwrap();
    let mut engine = Engine::new(Linux::rooted(root).unwrap(), journal, TestClock::new());
    (phases, engine.reset(None).await.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_reset_restores_every_byte(
        before in vec(thing(), 0..8),
        revisions in vec(vec(thing(), 1..5), 1..4),
    ) {
        let folder = TempDir::new().unwrap();
        let (root, state) = (folder.path().join("root"), folder.path().join("state"));
        fs::create_dir(&root).unwrap();
        before.iter().for_each(|thing| put(&root, thing));
        let original = tree(&root);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (phases, reset) = runtime.block_on(live(&root, &state, &revisions));
        prop_assert_eq!(reset, Reset::Clean, "after {:?}", phases);
        prop_assert_eq!(tree(&root), original);
    }
}
