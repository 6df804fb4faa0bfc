//! The store's file: made whole or not at all, and opened for writing only once it has been found sound.
//!
//! The engine trusts the pages of a file that was closed in order, and mends one that was not; neither must
//! happen to a file that somebody else has cut short or scribbled over. So it is read into memory first and
//! judged there: whatever is wrong with it, the file stays as it was.

use std::{
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    panic,
    path::{Path, PathBuf},
    sync::{
        Arc, Once, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use redb::{Builder, Database, DatabaseError, StorageBackend, StorageError};

use super::{OpenError, log};

const NAME: &str = "store.redb";
const LOCK: &str = "lock";
/// What the engine may keep of the file in memory. Nothing is read from it once it is open, and it would keep a gigabyte of
/// what it has written.
const CACHE: usize = 32 << 20;
/// The thread that judges a file.
const CHECK: &str = "apiserver-store-check";

/// A folder that is ours: nobody else opens it until this is dropped, also not if we are killed.
#[derive(Debug)]
pub(super) struct Held {
    folder: PathBuf,
    _lock: File,
}

impl Held {
    /// Makes the folder if it is absent, and takes it.
    pub(super) fn take(folder: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Folder(folder.to_owned(), error);
        // For its owner only: there are secrets in it.
        fs::create_dir_all(folder)
            .and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(0o700)))
            .map_err(failed)?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder: folder.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(folder.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Whether there is a file yet.
    pub(super) fn is_new(&self) -> bool {
        !is_in(&self.folder)
    }

    /// Makes a file with what `fill` puts into it. Killed half-way, there is none.
    pub(super) fn create(
        &self,
        fill: impl FnOnce(&Database) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let (path, partial) = (self.path(), self.folder.join("store.partial"));
        let failed = |error| OpenError::Folder(self.folder.clone(), error);
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&partial);
        let database = builder().create_file(file.map_err(failed)?).map_err(redb::Error::from)?;
        fill(&database)?;
        drop(database);
        let synced = || {
            fs::rename(&partial, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        synced().map_err(failed)
    }

    /// Opens the file to be written; one that is damaged is left as it is.
    pub(super) fn open(&self) -> Result<Database, OpenError> {
        let path = self.path();
        judge(&path)?;
        builder().open(&path).map_err(|error| told(&path, error))
    }

    fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}

/// Whether a folder has a store.
pub(super) fn is_in(folder: &Path) -> bool {
    folder.join(NAME).exists()
}

/// Whether every page is as it was written; nothing of the file is changed.
fn judge(path: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::Folder(path.to_owned(), error);
    let image = Image(RwLock::new(fs::read(path).map_err(failed)?));
    // A thread of its own, because the engine may panic over what makes no sense.
    hush();
    let judged = thread::scope(|scope| {
        let thread = thread::Builder::new().name(CHECK.to_owned());
        let check = thread.spawn_scoped(scope, move || check(image));
        check.map(thread::ScopedJoinHandle::join)
    });
    let path = path.to_owned();
    match judged.map_err(OpenError::Thread)? {
        Ok(Ok(Verdict::Sound)) => Ok(()),
        Ok(Ok(Verdict::Newer(found))) => Err(OpenError::Newer { path, found, known: log::FORMAT }),
        Ok(Ok(Verdict::Damaged) | Err(_)) | Err(_) => Err(OpenError::Damaged(path)),
    }
}

/// A panic of the thread that judges is an answer, and nothing to show to anybody.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(CHECK) {
                shown(info);
            }
        }));
    });
}

enum Verdict {
    Sound,
    Damaged,
    /// Written in a format that this program does not know.
    Newer(u64),
}

fn check(image: Image) -> Result<Verdict, redb::Error> {
    if image.len()? == 0 {
        // The engine would take it for a new one.
        return Ok(Verdict::Damaged);
    }
    let mended = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&mended);
    let mut database = Builder::new()
        .set_repair_callback(move |_| noted.store(true, Ordering::Relaxed))
        .create_with_backend(image)?;
    // Mending a file that was not closed in order checks every page already.
    if !mended.load(Ordering::Relaxed) && !database.check_integrity()? {
        return Ok(Verdict::Damaged);
    }
    Ok(match log::format(&database)? {
        found if found > log::FORMAT => Verdict::Newer(found),
        _ => Verdict::Sound,
    })
}

/// What is wrong with the file, in our words.
fn told(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(path.to_owned()),
        DatabaseError::Storage(StorageError::Corrupted(_)) => OpenError::Damaged(path.to_owned()),
        error => redb::Error::from(error).into(),
    }
}

/// A file in memory.
struct Image(RwLock<Vec<u8>>);

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Image")
    }
}

impl StorageBackend for Image {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = span(offset, out.len()).and_then(|span| bytes.get(span));
        out.copy_from_slice(found.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| ErrorKind::FileTooLarge)?;
        self.0.write().unwrap_or_else(PoisonError::into_inner).resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let place = span(offset, data.len()).and_then(|span| bytes.get_mut(span));
        place.ok_or(ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }
}

fn span(offset: u64, len: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    Some(start..start.checked_add(len)?)
}
