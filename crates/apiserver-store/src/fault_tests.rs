//! Faults of the store's file, disk or backup: the error is one sentence, and existing data are not changed.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{
    backup::{Backup, BackupError},
    *,
};

fn key(name: &str) -> Key {
    Key::new(GroupResource::new("", "configmaps"), "default", name)
}

fn start(folder: &Path) -> Store {
    let storage = Storage::Folder(folder.to_owned());
    Store::open(&storage, 100).unwrap().start(Box::new(|_| {})).unwrap()
}

async fn create(store: &Store, name: &str, text: &str) -> Result<u64, WriteError> {
    let value = json!({"metadata": {"name": name}, "text": text});
    let write = Write { key: key(name), expect: Expect::Absent, action: Action::Put(value), guards: vec![] };
    store.write(write).await.map(|object| object.revision)
}

/// A folder with a store of some size in it, closed in order.
async fn some_store() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    for n in 0..60 {
        create(&store, &format!("o{n}"), &"x".repeat(3000)).await.unwrap();
    }
    store.close();
    let file = folder.path().join("store.redb");
    (folder, file)
}

fn refused(folder: &Path) -> OpenError {
    Store::open(&Storage::Folder(folder.to_owned()), 100).err().expect("it is refused")
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_as_it_is() {
    let (folder, file) = some_store().await;
    let whole = fs::read(&file).unwrap();
    let mut cases: Vec<(String, Vec<u8>)> = [0, 1, 100, 4096, whole.len() / 2, whole.len() - 1]
        .into_iter()
        .map(|len| (format!("cut to {len}"), whole[..len].to_vec()))
        .collect();
    cases.push(("words".to_owned(), b"this is not a store".repeat(400)));
    let mut scribbled = whole.clone();
    scribbled[..512].fill(0);
    cases.push(("no header".to_owned(), scribbled));
    // Every page that holds something of ours.
    for place in
        (0..whole.len()).step_by(4096).filter(|at| whole[*at..*at + 64].iter().any(|byte| *byte != 0))
    {
        if whole[place..place + 4096].windows(40).any(|bytes| bytes == [b'x'; 40]) {
            let mut scribbled = whole.clone();
            scribbled[place + 1000..place + 1040].fill(b'y');
            cases.push((format!("scribbled at {place}"), scribbled));
        }
    }
    // Anywhere at all, the engine's own tables included.
    for n in 0..60 {
        let mut scribbled = whole.clone();
        let place = n * 7919 * 64 % (whole.len() - 64);
        scribbled[place..place + 64].iter_mut().for_each(|byte| *byte ^= 0x5a);
        cases.push((format!("changed at {place}"), scribbled));
    }
    let mut refusals = 0;
    for (what, bytes) in cases {
        fs::write(&file, &bytes).unwrap();
        let error = match Store::open(&Storage::Folder(folder.path().to_owned()), 100) {
            Err(error) => error,
            Ok(opened) => {
                // A page that is not in use any more.
                let everything = opened.everything().items;
                assert_eq!(everything.len(), 60, "{what}");
                assert!(everything.iter().all(|object| object.value["text"] == "x".repeat(3000)), "{what}");
                continue;
            }
        };
        assert!(matches!(error, OpenError::Damaged(_)), "{what}: {error}");
        assert!(error.to_string().contains("backup"), "{error}");
        assert!(fs::read(&file).unwrap() == bytes, "{what}: the file was touched");
        refusals += 1;
    }
    assert!(refusals > 30, "{refusals}");
    fs::write(&file, &whole).unwrap();
    assert_eq!(start(folder.path()).everything().items.len(), 60);
}

#[tokio::test]
async fn a_store_that_cannot_be_written_says_so_until_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    assert_eq!(store.health(), Health::Ok);
    create(&store, "one", "").await.unwrap();
    assert_eq!(store.health(), Health::Ok);
    drop(store);

    let mut opened = Store::open(&Storage::Folder(folder.path().to_owned()), 100).unwrap();
    // As after an error of the disk: the engine has no file any more.
    opened.log.close();
    let store = opened.start(Box::new(|_| {})).unwrap();
    assert!(matches!(create(&store, "two", "").await, Err(WriteError::Commit(_))));
    let Health::NeedsRestart(reason) = store.health() else { panic!("{:?}", store.health()) };
    assert!(reason.contains("cannot use the store's file"), "{reason}");
    drop(store);
    let store = start(folder.path());
    assert_eq!((store.health(), store.everything().items.len()), (Health::Ok, 1));
}

#[tokio::test]
async fn a_store_whose_writer_has_ended_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let opened = Store::open(&Storage::Folder(folder.path().to_owned()), 100).unwrap();
    let store = opened.start(Box::new(|_| panic!("a bug, for this test"))).unwrap();
    assert!(matches!(create(&store, "one", "").await, Err(WriteError::Closed)));
    // The reply is dropped a moment before the thread ends.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while store.health() == Health::Ok && std::time::Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    assert!(matches!(store.health(), Health::NeedsRestart(_)));
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_as_it_is() {
    let (folder, file) = some_store().await;
    {
        const META: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
        let database = redb::Database::open(&file).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("format", format::FORMAT + 1).unwrap();
        transaction.commit().unwrap();
    }
    let before = fs::read(&file).unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
    assert!(error.to_string().contains("newer program"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn only_one_has_it_open_and_only_its_owner_reads_it() {
    let (folder, file) = some_store().await;
    let store = start(folder.path());
    assert!(matches!(refused(folder.path()), OpenError::InUse(_)));
    drop(store);
    drop(start(folder.path()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_backup_brings_everything_back_at_later_revisions() {
    let (folder, _) = some_store().await;
    let away = tempfile::tempdir().unwrap();
    let extra = away.path().join("ca.crt");
    fs::write(&extra, "a certificate").unwrap();
    fs::write(folder.path().join("service-account.key"), "a key").unwrap();
    let path = away.path().join("backup");
    let files = BTreeMap::from([("pki/ca.crt".to_owned(), extra)]);
    Backup::of_folder(folder.path(), &files).unwrap().write(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(away.path()).unwrap().count(), 2, "nothing else is left");

    let backup = Backup::read(&path).unwrap();
    assert_eq!(backup.objects(), 60);
    assert_eq!(backup.files().collect::<Vec<_>>(), [("pki/ca.crt", &b"a certificate"[..])]);
    let restored = away.path().join("restored");
    let last = backup.restore(&restored).unwrap();
    assert!(matches!(backup.restore(&restored), Err(BackupError::Occupied(_))));
    assert_eq!(fs::read_to_string(restored.join("service-account.key")).unwrap(), "a key");
    let store = start(&restored);
    assert_eq!(store.revision(), last);
    let everything = store.everything();
    assert_eq!(everything.items.len(), 60);
    for object in &everything.items {
        assert!(object.revision > backup.revision() + 1_000_000 && object.revision <= last);
        assert_eq!(object.value["metadata"]["resourceVersion"], object.revision.to_string());
        assert_eq!(object.value["text"].as_str().unwrap().len(), 3000);
    }
    // Whoever watched before has to list again.
    assert!(store.events_after(None, backup.revision() + 1000, 10).is_none());
    assert!(create(&store, "new", "").await.unwrap() > last);
}

#[tokio::test]
async fn a_backup_that_is_not_whole_is_refused() {
    let (folder, _) = some_store().await;
    let away = tempfile::tempdir().unwrap();
    let path = away.path().join("backup");
    fs::write(folder.path().join("service-account.key"), "a key").unwrap();
    Backup::of_folder(folder.path(), &BTreeMap::new()).unwrap().write(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let error_for = |bytes: &[u8]| {
        let path = away.path().join("altered");
        fs::write(&path, bytes).unwrap();
        Backup::read(&path).expect_err("it is refused")
    };
    for len in [whole.len() - 1, whole.len() - 40, whole.len() / 2, 200] {
        assert!(matches!(error_for(&whole[..len]), BackupError::Truncated(_)), "{len}");
    }
    assert!(matches!(error_for(b""), BackupError::Foreign(_)));
    assert!(matches!(error_for(b"apiVersion: v1\n"), BackupError::Foreign(_)));
    let mut altered = whole.clone();
    let middle =
        whole.len() / 2 + whole[whole.len() / 2..].windows(9).position(|w| w == b"xxxxxxxxx").unwrap();
    altered[middle] = b'y';
    assert!(matches!(error_for(&altered), BackupError::Altered(_)));
    let missing: Vec<u8> = {
        let mut lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        lines.remove(10);
        lines.concat()
    };
    assert!(matches!(error_for(&missing), BackupError::Altered(_)));
    assert!(matches!(error_for(&[&whole[..], b"more\n"].concat()), BackupError::Altered(_)));
    let newer = String::from_utf8(whole).unwrap().replacen("\"capstanBackup\":1", "\"capstanBackup\":2", 1);
    assert!(matches!(error_for(newer.as_bytes()), BackupError::Newer { found: 2, known: 1, .. }));
}
