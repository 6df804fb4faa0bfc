//! Files of the agent's own: whole or not at all, and for root's eyes only.

use capstan_files::Durability;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// What is in a file, if there is one.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Writes a file that only root may read. Durable when it returns.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    write_for(path, content, 0o600)
}

/// Writes a file with this mode. Durable when it returns.
pub(crate) fn write_for(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    capstan_files::write(path, content, mode, Durability::Lasting).map_err(|error| error.source)
}

/// Removes a file, if there is one.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a folder with all that is in it, if there is one.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a folder if there is nothing in it.
pub(crate) fn remove_if_empty(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Ok(())
        }
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn files_are_private_and_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/b.json");
        assert_eq!(read(&path).expect("read"), None);
        // Left behind by a crash, and readable by all.
        fs::create_dir(folder.path().join("a")).expect("made");
        fs::write(folder.path().join("a/b.json.partial"), "half").expect("written");
        for content in ["one", "two"] {
            write(&path, content.as_bytes()).expect("written");
            assert_eq!(read(&path).expect("read").as_deref(), Some(content.as_bytes()));
        }
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path().join("a")).expect("a folder").count(), 1);
        remove(&path).expect("removed");
        remove(&path).expect("still no error");
        remove_if_empty(&folder.path().join("a")).expect("removed");
        remove_folder(&folder.path().join("a")).expect("still no error");
    }
}
