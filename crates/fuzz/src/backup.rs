//! Backups, as `capstan restore` reads them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use capstan_apiserver::Backup;
use capstan_plan::Digest;

/// The file as it is, and with the end that fits it: random bytes never have the right digest.
pub(crate) fn backup(input: &[u8]) {
    read(input);
    let mut whole = input.to_vec();
    if !whole.ends_with(b"\n") {
        whole.push(b'\n');
    }
    let end = format!("{{\"end\":{{\"sha256\":\"{}\"}}}}\n", Digest::of(&whole));
    whole.extend_from_slice(end.as_bytes());
    read(&whole);
}

/// A backup that is read and written is read again as the same, and can be restored.
fn read(bytes: &[u8]) {
    let file = folder().join("backup");
    let open = |bytes: &[u8]| {
        std::fs::write(&file, bytes).expect("a temporary file can be written");
        Backup::read(&file)
    };
    let Ok(backup) = open(bytes) else { return };
    restore(&backup, &folder().join("restored"));
    let seen = format!("{backup:?}");
    let written: Vec<u8> = backup.into_chunks().flatten().collect();
    let again = open(&written).expect("what was read and written can be read");
    assert_eq!(format!("{again:?}"), seen);
    assert_eq!(again.into_chunks().flatten().collect::<Vec<u8>>(), written);
}

fn restore(backup: &Backup, folder: &Path) {
    std::fs::create_dir_all(folder).expect("a temporary folder can be made");
    // An error is an answer, too: files may have names that are none.
    _ = backup.restore(folder);
    std::fs::remove_dir_all(folder).expect("a temporary folder can be removed");
}

fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder can be made").keep())
}
