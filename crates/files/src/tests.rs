//! Files are written whole, with their mode, and logs keep what they should.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o7777
}

#[test]
fn content_and_mode_are_exact_whatever_was_there() {
    let long = "x".repeat(255);
    // Name, content before, mode before, mode wanted.
    let table = [
        ("new", None, 0o600),
        ("private", Some(0o644), 0o600),
        ("public", Some(0o600), 0o644),
        ("program", Some(0o400), 0o755),
        ("shared", None, 0o666),
        ("read-only", None, 0o444),
        (long.as_str(), Some(0o600), 0o600),
    ];
    for durability in [Durability::Whole, Durability::Lasting] {
        for (name, before, wanted) in table {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join(name);
            if let Some(before) = before {
                fs::write(&path, "old and longer").expect("written");
                fs::set_permissions(&path, Permissions::from_mode(before)).expect("a mode");
            }
            for content in ["one", "", "two"] {
                write(&path, content.as_bytes(), wanted, durability).expect("written");
                assert_eq!(fs::read_to_string(&path).expect("read"), content, "{name}");
                assert_eq!(mode(&path), wanted, "{name}");
                assert_eq!(names(folder.path()), [name]);
            }
        }
    }
}

#[test]
fn a_link_is_replaced_and_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, target) = (folder.path().join("a"), folder.path().join("target"));
    fs::write(&target, "kept").expect("written");
    for link in [folder.path().join("a.partial"), path.clone()] {
        std::os::unix::fs::symlink(&target, link).expect("linked");
    }
    write(&path, b"new", 0o600, Durability::Lasting).expect("written");
    assert_eq!(fs::read_to_string(&target).expect("read"), "kept");
    assert_eq!(fs::read_to_string(&path).expect("read"), "new");
    assert_eq!(names(folder.path()), ["a", "target"]);
}

/// What a killed process leaves behind is the state after some of the steps.
#[test]
fn a_crash_leaves_the_old_file_and_the_next_write_cleans_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    write(&path, b"old", 0o600, Durability::Lasting).expect("written");
    for begun in ["", "half of a new content that is much longer than the next one"] {
        let mut partial = PartialFile::create(&path, 0o644).expect("begun");
        partial.write_all(begun.as_bytes()).expect("written");
        // Not dropped, as in a process that is killed.
        std::mem::forget(partial);
        assert_eq!(fs::read_to_string(&path).expect("read"), "old");
        assert_eq!(names(folder.path()), ["a", "a.partial"]);
    }
    write(&path, b"new", 0o600, Durability::Lasting).expect("written");
    assert_eq!(fs::read_to_string(&path).expect("read"), "new");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn an_unfinished_file_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    let mut partial = PartialFile::create(&path, 0o600).expect("begun");
    partial.write_all(b"half").expect("written");
    assert_eq!(fs::read_to_string(partial.partial()).expect("read"), "half");
    drop(partial);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn an_error_names_the_file_and_leaves_the_old_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing/a");
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).expect("a folder");
    fs::write(taken.join("old"), "old").expect("written");
    for (path, kind) in [(&missing, io::ErrorKind::NotFound), (&taken, io::ErrorKind::IsADirectory)] {
        let error = write(path, b"new", 0o600, Durability::Lasting).expect_err("not written");
        assert_eq!(error.to_string(), format!("cannot write {}", path.display()));
        assert_eq!(error.source.kind(), kind);
        assert!(std::error::Error::source(&error).is_some());
    }
    assert_eq!(names(folder.path()), ["taken"]);
    assert_eq!(names(&taken), ["old"]);
}

#[test]
fn a_finished_file_or_folder_gets_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file.partial"), "file").expect("written");
    fs::write(at("file"), "old").expect("written");
    fs::create_dir(at("folder.partial")).expect("a folder");
    for name in ["file", "folder"] {
        publish(&at(&format!("{name}.partial")), &at(name)).expect("published");
    }
    assert_eq!(fs::read_to_string(at("file")).expect("read"), "file");
    assert_eq!(names(folder.path()), ["file", "folder"]);
    let error = publish(&at("gone.partial"), &at("gone")).expect_err("not there");
    assert_eq!(error.to_string(), format!("cannot write {}", at("gone").display()));
}

#[test]
fn a_bare_name_is_in_the_current_folder() {
    for (path, folder) in [("a", "."), ("./a", "."), ("b/a", "b"), ("/a", "/")] {
        assert_eq!(folder_of(Path::new(path)), Path::new(folder));
    }
}

#[test]
fn a_log_keeps_its_newest_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let rotation = Rotation { bytes: 10, files: 2 };
    let mut log = RotatingFile::open(&path, 0o600, rotation).unwrap();
    for line in ["first\n", "second\n", "third\n", "fourth\n"] {
        log.write_line(line.as_bytes()).unwrap();
    }
    log.flush().unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
    assert_eq!(read("audit.log").as_deref(), Some("fourth\n"));
    assert_eq!(read("audit.log.1").as_deref(), Some("third\n"));
    assert_eq!(read("audit.log.2").as_deref(), Some("second\n"));
    assert_eq!(read("audit.log.3"), None);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    // What was there before counts, and a line that is longer than a file has one of its own.
    let mut log = RotatingFile::open(&path, 0o600, rotation).unwrap();
    log.write_line(b"a line of more than ten bytes\n").unwrap();
    log.write_line(b"x\n").unwrap();
    log.flush().unwrap();
    assert_eq!(read("audit.log").as_deref(), Some("x\n"));
    assert_eq!(read("audit.log.1").as_deref(), Some("a line of more than ten bytes\n"));
    assert_eq!(read("audit.log.2").as_deref(), Some("fourth\n"));
}
