//! Provides the current catalog.

use capstan_plan::Digest;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Catalog, Folder, Index, Source};

/// The available software. Cheap to clone; a controller reads the catalog once in each reconcile.
#[derive(Clone, Debug, Default)]
pub struct Software(SoftwareSource);

#[derive(Clone, Debug)]
enum SoftwareSource {
    Fixed(Arc<Catalog>),
    Shelf(Arc<Shelf>),
}

impl Default for SoftwareSource {
    fn default() -> Self {
        Self::Fixed(Arc::default())
    }
}

/// How machines reach the files of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Address of the server, without a path.
    pub url: String,
    /// CA of the server, in PEM.
    pub ca: String,
}

impl Served {
    fn source(&self, digest: &Digest) -> Source {
        Source { url: format!("{}{}{digest}", self.url, PATH), ca: Some(self.ca.clone()) }
    }
}

/// What stands before the digest in the path of a file.
pub(crate) const PATH: &str = "/artifacts/sha256/";

impl Software {
    /// A catalog that never changes.
    pub fn fixed(catalog: Catalog) -> Self {
        Self(SoftwareSource::Fixed(Arc::new(catalog)))
    }

    /// The software in a folder. Its files are in the catalog only if they are served.
    pub fn in_folder(folder: Folder, served: Option<Served>) -> Self {
        Self(SoftwareSource::Shelf(Arc::new(Shelf { folder, served, seen: Mutex::default() })))
    }

    /// The current catalog. The index of a folder is read again when it has changed. While it cannot be read, the last
    /// catalog is used.
    pub fn catalog(&self) -> Arc<Catalog> {
        match &self.0 {
            SoftwareSource::Fixed(catalog) => Arc::clone(catalog),
            SoftwareSource::Shelf(shelf) => shelf.with(|seen| Arc::clone(&seen.catalog)),
        }
    }

    /// Where the bytes with a digest lie, and how many they should be.
    #[cfg(feature = "server")]
    pub(crate) fn file_of(&self, digest: &Digest) -> Option<(PathBuf, u64)> {
        let SoftwareSource::Shelf(shelf) = &self.0 else { return None };
        shelf.with(|seen| {
            let entry = seen.index.file_of(digest)?;
            Some((shelf.folder.file_path(entry.file.as_deref()?), entry.size))
        })
    }
}

#[derive(Debug)]
struct Shelf {
    folder: Folder,
    served: Option<Served>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    stamps: Vec<Option<Stamp>>,
    index: Index,
    catalog: Arc<Catalog>,
}

/// What tells one version of a file from the next: it is always replaced by another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    seconds: i64,
    nanoseconds: i64,
    size: u64,
}

impl From<Metadata> for Stamp {
    fn from(metadata: Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
            size: metadata.len(),
        }
    }
}

impl Shelf {
    fn with<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        // What is inside is replaced whole: a panic elsewhere has not broken it.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = match self.stamps() {
            Ok(stamps) => stamps,
            Err(error) => {
                tracing::warn!(folder = %self.folder.path().display(), %error, "cannot look at the index of software");
                return look(&seen);
            }
        };
        if stamps != seen.stamps {
            // Also when it cannot be read: it is told once, and tried again when it changes.
            seen.stamps = stamps;
            match self.folder.whole_index() {
                Ok(index) => {
                    let served = |digest: &Digest| self.served.as_ref().map(|served| served.source(digest));
                    seen.catalog = Arc::new(index.catalog(served));
                    seen.index = index;
                }
                Err(error) => {
                    tracing::warn!(%error, "the index of software cannot be used; what it said before counts");
                }
            }
        }
        look(&seen)
    }

    fn stamps(&self) -> io::Result<Vec<Option<Stamp>>> {
        let stamp = |path: PathBuf| match File::open(path).and_then(|file| file.metadata()) {
            Ok(metadata) => Ok(Some(metadata.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        self.folder.index_paths().into_iter().map(stamp).collect()
    }
}
