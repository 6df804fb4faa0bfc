//! A folder of software: an index, and the files that it lists.
//!
//! Every write is atomic, and files are written before the index that lists them, so that a reader never finds an entry
//! without its file. Writers hold a lock; readers need none.

use aws_lc_rs::digest::{Context, SHA256};
use capstan_files::Durability;
use capstan_plan::Digest;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::index::{Entry, EntryError, Index, IndexError, LARGEST_INDEX};
use crate::{AGENT, Arch, VERSION};

/// Name of the index file in a folder of software.
pub const INDEX: &str = "index.yaml";
const LOCK: &str = "index.lock";
/// Files that we put there lie here, by digest.
const FILES: &str = "sha256";

/// A folder of software. Nothing is cached: each call reads the disk.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// An index beside the folder's own, of what lies elsewhere.
    elsewhere: Option<PathBuf>,
}

/// Why an operation on a folder of software failed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file or folder could not be read or written.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The index is invalid.
    #[error("{path}: {source}")]
    Index {
        /// Path of the index.
        path: PathBuf,
        /// The problem.
        source: IndexError,
    },
    /// An entry to add is invalid.
    #[error("{title}: {source}")]
    Entry {
        /// Title of the entry.
        title: String,
        /// The problem.
        source: EntryError,
    },
    /// The content of a file is not what was expected.
    #[error("{path}: {problem}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}

/// A file to add.
#[derive(Clone, Debug)]
pub struct Addition {
    /// Name, such as `k3s`.
    pub name: String,
    /// Version.
    pub version: String,
    /// Architecture.
    pub arch: Arch,
}

/// A problem that [`Folder::verify`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name, version and architecture.
    pub title: String,
    /// The problem, and the remedy.
    pub problem: String,
}

type Result<T> = std::result::Result<T, FolderError>;

impl Folder {
    /// The folder at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), elsewhere: None }
    }

    /// Adds the index of software that machines download from elsewhere. This crate never writes that index.
    #[must_use]
    pub fn with_elsewhere(self, index: Option<PathBuf>) -> Self {
        Self { elsewhere: index, ..self }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of its index.
    pub fn index_path(&self) -> PathBuf {
        self.path.join(INDEX)
    }

    /// Path of a file that the index lists.
    pub fn file_path(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Reads the index. A folder without one is empty.
    ///
    /// # Errors
    /// If the index cannot be read or is invalid.
    pub fn index(&self) -> Result<Index> {
        read(self.index_path())
    }

    /// Both indices merged. The folder's own index has precedence.
    ///
    /// # Errors
    /// As [`Folder::index`].
    pub fn whole_index(&self) -> Result<Index> {
        let own = self.index()?;
        let Some(path) = self.elsewhere.clone() else { return Ok(own) };
        Ok(own.with_elsewhere(&read(path)?))
    }

    /// The files that [`Folder::whole_index`] is made from.
    pub(crate) fn index_paths(&self) -> Vec<PathBuf> {
        std::iter::once(self.index_path()).chain(self.elsewhere.clone()).collect()
    }

    /// Copies a file into the folder, and returns its entry with digest and size.
    ///
    /// # Errors
    /// If the file cannot be read, is empty or does not have the expected digest, or the folder cannot be written.
    pub fn add_file(&self, addition: Addition, from: &Path, expected: Option<&Digest>) -> Result<Entry> {
        let _lock = self.lock()?;
        let folder = self.path.join(FILES);
        fs::create_dir_all(&folder).map_err(failed("make", &folder))?;
        let mut source = File::open(from).map_err(failed("read", from))?;
        let mut copy = tempfile::Builder::new()
            .prefix(".partial-")
            .tempfile_in(&folder)
            .map_err(failed("write in", &folder))?;
        let (sha256, size) = copy_hashing(&mut source, copy.as_file_mut())
            .map_err(|(doing, error)| failed(doing, if doing == "read" { from } else { &folder })(error))?;
        if let Some(expected) = expected.filter(|expected| **expected != sha256) {
            let problem = format!("has the digest {sha256}, not {expected}");
            return Err(FolderError::File { path: from.to_owned(), problem });
        }
        let file = format!("{FILES}/{sha256}");
        let entry = entry(addition, sha256, size, Some(file.clone()), Vec::new());
        check(&entry)?;
        let path = self.path.join(file);
        let keep = || -> io::Result<()> {
            // Public bytes, read by whoever serves them.
            fs::set_permissions(copy.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
            copy.as_file().sync_all()?;
            copy.persist(&path)?;
            capstan_files::sync_folder(&folder)
        };
        keep().map_err(failed("write", &path))?;
        self.put(entry)
    }

    /// Adds an entry for a file that machines download from `url`, and that is not in the folder.
    ///
    /// # Errors
    /// If the entry is invalid, or the folder cannot be written.
    pub fn add_url(&self, addition: Addition, url: String, sha256: Digest, size: u64) -> Result<Entry> {
        let entry = entry(addition, sha256, size, None, vec![url]);
        check(&entry)?;
        let _lock = self.lock()?;
        self.put(entry)
    }

    /// Adds the agent program, for the architecture that it was compiled for, with the version of this Capstan. Copies
    /// nothing if it is already in the folder.
    ///
    /// # Errors
    /// If the file is not a Linux program, or the folder cannot be written.
    pub fn add_agent(&self, binary: &Path) -> Result<Entry> {
        let mut file = File::open(binary).map_err(failed("read", binary))?;
        let mut head = [0; 20];
        let wrong =
            |problem: &str| FolderError::File { path: binary.to_owned(), problem: problem.to_owned() };
        file.read_exact(&mut head).map_err(|_| wrong("is not a program"))?;
        let arch = Arch::of_program(&head).ok_or_else(|| wrong("is not a program for a machine we know"))?;
        let (sha256, _) = hash(binary).map_err(failed("read", binary))?;
        let is_it = |entry: &&Entry| {
            (entry.name.as_str(), entry.version.as_str(), entry.arch) == (AGENT, VERSION, arch)
        };
        if let Some(entry) = self.index()?.entries().find(is_it)
            && entry.sha256 == sha256
            && entry.file.as_ref().is_some_and(|file| self.file_path(file).is_file())
        {
            return Ok(entry.clone());
        }
        self.add_file(
            Addition { name: AGENT.to_owned(), version: VERSION.to_owned(), arch },
            binary,
            Some(&sha256),
        )
    }

    /// Reads every file and compares it with its entry in the index.
    ///
    /// # Errors
    /// If the index cannot be read or is invalid.
    pub fn verify(&self) -> Result<Vec<Fault>> {
        let index = self.index()?;
        let fault = |entry: &Entry| {
            let file = entry.file.as_ref()?;
            let problem = match hash(&self.file_path(file)) {
                Ok((sha256, size)) if (sha256, size) == (entry.sha256, entry.size) => return None,
                Ok((_, size)) if size != entry.size => {
                    format!("{file} has {size} bytes instead of {}: add it again", entry.size)
                }
                Ok((sha256, _)) => format!("{file} has the digest {sha256}: add it again"),
                Err(error) => format!("cannot read {file}: {error}"),
            };
            Some(Fault { title: entry.title(), problem })
        };
        Ok(index.entries().filter_map(fault).collect())
    }

    /// Held for as long as something is written.
    fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.path).map_err(failed("make", &self.path))?;
        let path = self.path.join(LOCK);
        let take = || -> io::Result<File> {
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        take().map_err(failed("lock", &path))
    }

    /// Under the lock: notes an entry, and then lets go of a file that nothing speaks of any more.
    fn put(&self, entry: Entry) -> Result<Entry> {
        let mut index = self.index()?;
        let before: Vec<String> = index.entries().filter_map(|entry| entry.file.clone()).collect();
        let title = entry.title();
        index.put(entry.clone()).map_err(|source| FolderError::Entry { title, source })?;
        let path = self.index_path();
        capstan_files::write(&path, index.to_yaml().as_bytes(), 0o644, Durability::Lasting)
            .map_err(|error| failed("write", &path)(error.source))?;
        let ours = |file: &&String| file.starts_with(FILES);
        let is_named = |file: &String| index.entries().any(|entry| entry.file.as_ref() == Some(file));
        for file in before.iter().filter(ours).filter(|file| !is_named(file)) {
            // Left behind it costs nothing but room.
            _ = fs::remove_file(self.file_path(file));
        }
        Ok(entry)
    }
}

fn entry(addition: Addition, sha256: Digest, size: u64, file: Option<String>, urls: Vec<String>) -> Entry {
    let Addition { name, version, arch } = addition;
    Entry { name, version, arch, sha256, size, file, urls }
}

fn check(entry: &Entry) -> Result<()> {
    entry.check().map_err(|source| FolderError::Entry { title: entry.title(), source })
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::Io { doing, path, source }
}

fn hash(path: &Path) -> io::Result<(Digest, u64)> {
    copy_hashing(&mut File::open(path)?, &mut io::sink()).map_err(|(_, error)| error)
}

/// Digest and size of what was copied; an error says which side it was on.
fn copy_hashing(
    from: &mut impl Read,
    to: &mut impl io::Write,
) -> std::result::Result<(Digest, u64), (&'static str, io::Error)> {
    let mut context = Context::new(&SHA256);
    let (mut buffer, mut size) = (vec![0; 1 << 16], 0);
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(("read", error)),
        };
        context.update(&buffer[..read]);
        to.write_all(&buffer[..read]).map_err(|error| ("write in", error))?;
        size += read as u64;
    }
    let mut digits = String::with_capacity(64);
    for byte in context.finish().as_ref() {
        _ = write!(digits, "{byte:02x}");
    }
    Ok((digits.parse().expect("SHA-256 has 32 bytes"), size))
}
/// Reads an index. Where there is none there is nothing.
fn read(path: PathBuf) -> Result<Index> {
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Index::default()),
        Err(source) => return Err(FolderError::Io { doing: "read", path, source }),
    };
    let mut text = String::new();
    file.take(LARGEST_INDEX + 1).read_to_string(&mut text).map_err(|source| FolderError::Io {
        doing: "read",
        path: path.clone(),
        source,
    })?;
    let parsed = match text.len() as u64 > LARGEST_INDEX {
        true => Err(IndexError::Text(format!("it has more than {LARGEST_INDEX} bytes"))),
        false => Index::parse(&text),
    };
    parsed.map_err(|source| FolderError::Index { path, source })
}
