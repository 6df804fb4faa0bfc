//! Whatever was on a machine, and whatever plans did to it: after a reset every byte is as it was.

use crate::support::{
    TestClock, Verbs, artifact, file, folder, owner as owner_of_test, plan, shut, tree, verified,
};
use capstan_agent::real::Linux;
use capstan_agent::store::DiskStore;
use capstan_agent::{Engine, Journal, Reset};
use capstan_plan::{Action, Digest, Mode, Phase, Source, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

/// Every path with its mode, its owner and, if it is a file or a link, its content.
#[expect(clippy::type_complexity, reason = "all that can be seen of a file")]
fn look(root: &Path) -> BTreeMap<String, (u32, (u32, u32), Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let content = if about.is_symlink() {
                Some(fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
            } else {
                about.is_file().then(|| fs::read(&path).unwrap())
            };
            let owner = (about.uid(), about.gid());
            found.insert(path.to_str().unwrap().to_owned(), (about.permissions().mode(), owner, content));
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
enum What {
    Folder,
    File(String),
    /// A symbolic link that was there before; plans make none.
    Link(String),
    Artifact(String),
    /// What is in the archive.
    Tree(Vec<(String, String)>),
}

#[derive(Clone, Debug)]
struct Thing {
    at: String,
    what: What,
    mode: u32,
    owner: u32,
}

fn thing(what: impl Strategy<Value = What>) -> impl Strategy<Value = Thing> {
    let mode = prop_oneof![Just(0o755), Just(0o700), Just(0o640), Just(0o600)];
    (place(), what, mode, 0..3u32).prop_map(|(at, what, mode, owner)| Thing {
        // The owner may always enter a folder, or the test could not look.
        mode: if matches!(what, What::File(_) | What::Artifact(_)) { mode } else { mode | 0o700 },
        at,
        what,
        // Only root may give files away.
        owner: if owner_of_test().0 == 0 { owner } else { owner_of_test().0 },
    })
}

fn found_before() -> impl Strategy<Value = What> {
    prop_oneof![Just(What::Folder), "[a-z]{0,20}".prop_map(What::File), "[abc/.]{1,5}".prop_map(What::Link)]
}

fn planned() -> impl Strategy<Value = What> {
    let files = vec(("[ab]{1,2}(/[ab]{1,2})?", "[a-z]{0,20}"), 0..4);
    prop_oneof![
        Just(What::Folder),
        "[a-z]{0,20}".prop_map(What::File),
        "[a-z]{1,20}".prop_map(What::Artifact),
        files.prop_map(What::Tree),
    ]
}

fn put(root: &Path, thing: &Thing) {
    let path = root.join(&thing.at[1..]);
    if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
        return;
    }
    match &thing.what {
        What::File(content) => fs::write(&path, content).unwrap(),
        What::Link(target) => return std::os::unix::fs::symlink(target, &path).unwrap(),
        _ => fs::create_dir(&path).unwrap(),
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(thing.mode)).unwrap();
    std::os::unix::fs::chown(&path, Some(thing.owner), None).unwrap();
}

/// The bytes that are fetched.
fn fetched(thing: &Thing) -> Option<Vec<u8>> {
    match &thing.what {
        What::Artifact(content) => Some(content.as_bytes().to_vec()),
        What::Tree(files) => {
            let gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            let mut builder = tar::Builder::new(gz);
            for (name, content) in files {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                header.set_mode(0o644);
                builder.append_data(&mut header, name, content.as_bytes()).unwrap();
            }
            Some(builder.into_inner().unwrap().finish().unwrap())
        }
        _ => None,
    }
}

/// Where a source lies: in a folder that no plan is about.
const SOURCES: &str = "sources";

fn step((at, thing): (usize, &Thing)) -> Step {
    let name = format!("s{at}");
    let step = match &thing.what {
        What::File(content) => file(&name, &thing.at, content),
        What::Folder => folder(&name, &thing.at),
        What::Artifact(_) => artifact(&name, &thing.at, "", None),
        What::Tree(_) => tree(&name, &thing.at, ""),
        What::Link(_) => panic!("no plan makes links"),
    };
    step.edit(|step| {
        let mode = Mode::new(thing.mode).unwrap();
        match &mut step.action {
            Action::File(file) => (file.mode, file.owner) = (mode, thing.owner),
            Action::Directory(folder) => (folder.mode, folder.owner) = (mode, thing.owner),
            Action::Artifact(artifact) => {
                let bytes = fetched(thing).unwrap();
                (artifact.mode, artifact.owner) = (mode, thing.owner);
                (artifact.sha256, artifact.size) = (Digest::of(&bytes), bytes.len() as u64);
                let url = format!("file:///{SOURCES}/{}", artifact.sha256);
                artifact.sources = vec![Source::new(url.parse().unwrap())];
            }
            other => panic!("{other:?}"),
        }
    })
}

async fn live(root: &Path, state: &Path, revisions: &[Vec<Thing>]) -> (Vec<Phase>, Reset) {
    let linux = || Linux::rooted(root).unwrap().caching_in(state.join("cache"));
    let mut phases = Vec::new();
    for (revision, things) in (1..).zip(revisions) {
        let plan = plan(revision, things.iter().enumerate().map(step).collect());
        // Plans that contradict themselves are refused before they get here.
        if plan.clone().seal().is_err() {
            continue;
        }
        let plan = verified(plan);
        // A new life for every plan.
        let journal = Journal::open(DiskStore::open(state).await.unwrap()).await.unwrap();
        let mut engine = Engine::new(linux(), journal, TestClock::new());
        phases.push(engine.apply(&plan, &shut(&plan), |_| ()).await.unwrap().phase);
    }
    let journal = Journal::open(DiskStore::open(state).await.unwrap()).await.unwrap();
    let mut engine = Engine::new(linux(), journal, TestClock::new());
    (phases, engine.reset(None).await.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_reset_restores_every_byte(
        before in vec(thing(found_before()), 0..8),
        revisions in vec(vec(thing(planned()), 1..5), 1..4),
    ) {
        let folder = TempDir::new().unwrap();
        let (root, state) = (folder.path().join("root"), folder.path().join("state"));
        fs::create_dir(&root).unwrap();
        before.iter().for_each(|thing| put(&root, thing));
        fs::create_dir(root.join(SOURCES)).unwrap();
        for bytes in revisions.iter().flatten().filter_map(fetched) {
            fs::write(root.join(SOURCES).join(Digest::of(&bytes).to_string()), bytes).unwrap();
        }
        let original = look(&root);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (phases, reset) = runtime.block_on(live(&root, &state, &revisions));
        prop_assert_eq!(reset, Reset::Clean, "after {:?}", phases);
        prop_assert_eq!(look(&root), original);
    }
}
