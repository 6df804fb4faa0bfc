//! The file of the store: created atomically, and opened for writing only if it is intact.
//!
//! The storage engine trusts the pages of a file that was closed in order, and repairs another one; neither must happen
//! to a file that another program has truncated or overwritten. So a file that differs from its checksums ([`seal`]) is
//! checked first by an engine that writes to memory only. If it is damaged, it is not changed.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _},
    panic,
    path::{Path, PathBuf},
    sync::{
        Arc, Once, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use redb::{Builder, Database, DatabaseError, ReadOnlyDatabase, StorageBackend, StorageError};

use super::{
    OpenError, format,
    seal::{self, Seal},
};

const NAME: &str = "store.redb";
const LOCK: &str = "lock";
const SEAL: &str = "store.sealed";
/// What the engine may keep of the file in memory. Nothing is read from it once it is open, and it would keep a gigabyte of
/// what it has written.
const CACHE: usize = 32 << 20;
/// A thread that reads a file for which nobody has vouched yet.
pub(super) const CHECK: &str = "apiserver-store-check";

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
        capstan_files::publish(&partial, &path).map_err(|error| failed(error.source))
    }

    /// Opens the file to be written; one that is damaged is left as it is.
    pub(super) fn open(&self) -> Result<Database, OpenError> {
        let path = self.path();
        judge(&path)?;
        builder().open(&path).map_err(|error| open_error(&path, error))
    }

    /// Opens the file to be written if it is as it was closed, with what `read` found in it while that was looked at.
    pub(super) fn open_sealed<T: Send>(
        &self,
        read: impl FnOnce(&ReadOnlyDatabase) -> Result<T, OpenError> + Send,
    ) -> Option<(Database, T)> {
        let path = self.path();
        let seal = Seal::of(&self.seal(), &path).ok()??;
        hush();
        let found = thread::scope(|scope| {
            // As above: nobody has vouched for the file yet.
            let thread = thread::Builder::new().name(CHECK.to_owned());
            let reader = thread.spawn_scoped(scope, || {
                // Everything is read once.
                let database = Builder::new().set_cache_size(1 << 20).open_read_only(&path).ok()?;
                read(&database).ok()
            });
            let fits = seal.fits().unwrap_or(false);
            reader.ok()?.join().ok()?.filter(|_| fits)
        })?;
        Some((builder().open(&path).ok()?, found))
    }

    /// Notes that the file has been closed in order, as it is now.
    pub(super) fn close(&self) -> io::Result<()> {
        seal::put(&self.seal(), &self.path())
    }

    fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    fn seal(&self) -> PathBuf {
        self.folder.join(SEAL)
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
    let image = Image::of(path).map_err(failed)?;
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
        Ok(Ok(Verdict::Newer(found))) => Err(OpenError::Newer { path, found, known: format::FORMAT }),
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
    /// The format is newer than this program.
    Newer(u64),
}

fn check(image: Image) -> Result<Verdict, redb::Error> {
    if image.len()? == 0 {
        // The engine would take it for a new one.
        return Ok(Verdict::Damaged);
    }
    let mended = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&mended);
    let mut database = builder()
        .set_repair_callback(move |_| noted.store(true, Ordering::Relaxed))
        .create_with_backend(image)?;
    // Mending a file that was not closed in order checks every page already.
    if !mended.load(Ordering::Relaxed) && !database.check_integrity()? {
        return Ok(Verdict::Damaged);
    }
    Ok(match format::format(&database)? {
        found if found > format::FORMAT => Verdict::Newer(found),
        _ => Verdict::Sound,
    })
}

/// What is wrong with the file, in our words.
fn open_error(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(path.to_owned()),
        DatabaseError::Storage(StorageError::Corrupted(_)) => OpenError::Damaged(path.to_owned()),
        error => redb::Error::from(error).into(),
    }
}

/// A file that is read but never written: what is written to it stays in memory.
struct Image {
    file: File,
    draft: RwLock<Draft>,
}

/// What would be different.
struct Draft {
    len: u64,
    /// Up to here the file counts where there is no page.
    intact: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

const PAGE: u64 = 4096;

impl Image {
    fn of(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, draft: RwLock::new(Draft { len, intact: len, pages: BTreeMap::new() }) })
    }

    /// Reads from the file what it has, and nothing but zeros beyond.
    fn original(&self, draft: &Draft, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = draft.intact.saturating_sub(offset).min(out.len() as u64) as usize;
        let (known, beyond) = out.split_at_mut(there);
        beyond.fill(0);
        self.file.read_exact_at(known, offset)
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Image")
    }
}

impl StorageBackend for Image {
    fn len(&self) -> io::Result<u64> {
        Ok(self.draft.read().unwrap_or_else(PoisonError::into_inner).len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let draft = self.draft.read().unwrap_or_else(PoisonError::into_inner);
        let end = draft.end_of(offset, out.len())?;
        self.original(&draft, offset, out)?;
        for (page, bytes) in draft.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = page * PAGE;
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            out[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut draft = self.draft.write().unwrap_or_else(PoisonError::into_inner);
        draft.len = len;
        draft.intact = draft.intact.min(len);
        draft.pages.retain(|page, _| page * PAGE < len);
        if let Some(last) = draft.pages.get_mut(&(len / PAGE)) {
            last[(len % PAGE) as usize..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut draft = self.draft.write().unwrap_or_else(PoisonError::into_inner);
        let end = draft.end_of(offset, data.len())?;
        for page in offset / PAGE..end.div_ceil(PAGE) {
            let start = page * PAGE;
            if !draft.pages.contains_key(&page) {
                let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
                self.original(&draft, start, &mut bytes)?;
                draft.pages.insert(page, bytes);
            }
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            if let Some(bytes) = draft.pages.get_mut(&page) {
                bytes[(from - start) as usize..(to - start) as usize]
                    .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            }
        }
        Ok(())
    }
}

impl Draft {
    /// Where a span ends, if there is so much.
    fn end_of(&self, offset: u64, len: usize) -> io::Result<u64> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.len);
        end.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::log, *};

    #[test]
    fn a_file_is_read_without_a_judge_only_as_it_was_closed() {
        let folder = tempfile::tempdir().unwrap();
        let held = Held::take(folder.path()).unwrap();
        held.create(|database| Ok(log::fill(database, &[], 7)?)).unwrap();
        let read = || held.open_sealed(|database| Ok(format::format(database)?)).map(|(_, format)| format);
        assert_eq!(read(), None, "it has not been sealed");
        held.close().unwrap();
        assert_eq!(read(), Some(format::FORMAT));
        held.close().unwrap();
        assert!(held.open_sealed(|_| -> Result<(), _> { panic!("over what makes no sense") }).is_none());
        assert!(held.open_sealed(|_| -> Result<(), _> { Err(OpenError::Closed) }).is_none());
        let path = held.path();
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(read(), None, "somebody has changed it");
    }

    #[test]
    fn an_image_is_like_its_file_until_it_is_written_to_and_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut expected: Vec<u8> = (0..20_000u32).map(|n| n as u8).collect();
        fs::write(&path, &expected).unwrap();
        let before = expected.clone();
        let image = Image::of(&path).unwrap();
        let check = |expected: &[u8]| {
            assert_eq!(image.len().unwrap(), expected.len() as u64);
            for (offset, len) in [(0, expected.len()), (4000, 200), (4096, 4096), (expected.len() - 1, 1)] {
                let mut out = vec![9; len];
                image.read(offset as u64, &mut out).unwrap();
                assert_eq!(out, expected[offset..offset + len], "{offset} {len}");
            }
        };
        check(&expected);
        for (offset, len) in [(10, 5), (4090, 9000), (19_999, 1)] {
            image.write(offset as u64, &vec![7; len]).unwrap();
            expected[offset..offset + len].fill(7);
            check(&expected);
        }
        for len in [13_000, 30_000, 30_001] {
            image.set_len(len as u64).unwrap();
            expected.resize(len, 0);
            check(&expected);
        }
        assert!(image.read(30_000, &mut [0; 2]).is_err() && image.write(30_001, &[1]).is_err());
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
