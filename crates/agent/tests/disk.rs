//! The journal on a real disk.

use crate::support::{TestClock, Verbs, file, shell, shut, steps};
use capstan_agent::real::Linux;
use capstan_agent::store::{DiskStore, Store};
use capstan_agent::{Engine, Journal, Reset};
use capstan_plan::{Digest, Phase};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

#[tokio::test]
async fn a_store_keeps_what_it_was_given_and_nobody_else_reads_it() {
    let folder = TempDir::new().unwrap();
    let at = folder.path().join("state/agent");
    let mut store = DiskStore::open(&at).await.unwrap();
    assert!(store.load().await.unwrap().is_empty());
    store.append(b"one\n").await.unwrap();
    store.append(b"two\n").await.unwrap();
    assert_eq!(store.load().await.unwrap(), b"one\ntwo\n");
    store.replace(b"three\n").await.unwrap();
    store.append(b"four\n").await.unwrap();
    assert_eq!(store.load().await.unwrap(), b"three\nfour\n");
    let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
    store.keep(a, b"a").await.unwrap();
    store.keep(b, b"b").await.unwrap();
    store.keep_only(&[a].into()).await.unwrap();
    assert_eq!(store.kept(a).await.unwrap(), b"a");
    assert!(store.kept(b).await.is_err());
    fs::write(at.join("kept").join(a.to_string()), "changed").unwrap();
    assert!(store.kept(a).await.is_err());
    for (name, mode) in [("", 0o700), ("journal", 0o600), ("kept", 0o700)] {
        let found = fs::metadata(at.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name}");
    }
    let error = DiskStore::open(&at).await.unwrap_err().to_string();
    assert!(error.contains("in use by another agent"), "{error}");
    drop(store);
    assert!(DiskStore::open(&at).await.is_ok());
}

#[tokio::test]
async fn a_plan_goes_on_after_its_last_line_was_torn() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("root");
    let state = folder.path().join("state");
    fs::create_dir(&root).unwrap();
    let ran = folder.path().join("ran");
    let plan = steps(
        1,
        vec![
            file("config", "/etc/config", "x"),
            shell("count", &format!("echo ran >> {}", ran.display())).once(),
            shell("fail", "exit 1"),
        ],
    );
    let engine = async || {
        let journal = Journal::open(DiskStore::open(&state).await.unwrap()).await.unwrap();
        Engine::new(Linux::rooted(&root).unwrap(), journal, TestClock::new())
    };
    let mut first = engine().await;
    let end = first.apply(&plan, &shut(&plan), |_| ()).await.unwrap();
    assert_eq!(end.phase, Phase::Failed);
    drop(first);
    let journal = fs::read(state.join("journal")).unwrap();
    fs::write(state.join("journal"), &journal[..journal.len() - 7]).unwrap();

    let mut second = engine().await;
    assert_eq!(second.history().current.as_ref().unwrap().end, None, "the last line said that it had failed");
    assert_eq!(second.apply(&plan, &shut(&plan), |_| ()).await.unwrap(), end);
    assert_eq!(fs::read_to_string(&ran).unwrap(), "ran\n");
    assert_eq!(second.reset(None).await.unwrap(), Reset::Clean);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    assert!(fs::read(state.join("journal")).unwrap().is_empty());

    // Damage that no crash makes is not passed over.
    drop(second);
    let mut damaged = journal;
    damaged[40] ^= 1;
    fs::write(state.join("journal"), damaged).unwrap();
    let opened = Journal::open(DiskStore::open(&state).await.unwrap()).await;
    assert!(opened.unwrap_err().to_string().contains("line 1 of the journal is damaged"));
}

#[tokio::test]
async fn a_plan_whose_future_was_dropped_goes_on_like_after_a_crash() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    let (ran, done) = (folder.path().join("ran"), root.join("done"));
    let script = format!("echo ran >> {}; [ -e {} ] || sleep 300", ran.display(), done.display());
    let at = |revision| {
        let once = format!("echo once >> {}", ran.display());
        steps(revision, vec![shell("once", &once).once(), shell("slow", &script)])
    };
    let journal = Journal::open(DiskStore::open(folder.path().join("state")).await.unwrap()).await.unwrap();
    let mut engine = Engine::new(Linux::rooted(&root).unwrap(), journal, TestClock::new());
    let first = at(1);
    let began = std::sync::atomic::AtomicBool::new(false);
    let slow = |progress: &capstan_plan::Progress| {
        let at_slow = progress.step.as_ref().is_some_and(|step| step.name.as_str() == "slow");
        began.fetch_or(at_slow, std::sync::atomic::Ordering::SeqCst);
    };
    let shut_first = shut(&first);
    tokio::select! {
        end = engine.apply(&first, &shut_first, slow) => panic!("it should not have ended: {end:?}"),
        () = async {
            while !(began.load(std::sync::atomic::Ordering::SeqCst)
                && fs::read_to_string(&ran).is_ok_and(|text| text.contains("ran")))
            {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        } => {}
    }
    fs::write(&done, "").unwrap();
    let end = engine.apply(&at(2), &shut(&at(2)), |_| ()).await.unwrap();
    assert_eq!(end.phase, Phase::Applied, "{end:?}");
    assert_eq!(fs::read_to_string(&ran).unwrap(), "once\nran\nran\n");
}
