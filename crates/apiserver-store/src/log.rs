//! The file: three tables of redb, and how rows are written.
//!
//! `objects` holds what is; `log` holds, for each revision of the window, what was there before it: an undo
//! log. What an event left behind is therefore the next event's previous state, or the current object, and
//! nothing is written twice.

use std::{
    collections::HashMap,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use bytes::Bytes;
use redb::{
    AccessGuard, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    StorageError, TableDefinition, TableError, backends::InMemoryBackend,
};
use serde_json::Value;

use super::{
    Change, Event, Key, OpenError, Storage, Stored,
    file::{self, Held},
    format::{FORMAT, META, VERSION},
    index::State,
};

const OBJECTS: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("objects");
/// Revision to (change, key, revision of the previous state, previous state).
const LOG: TableDefinition<'_, u64, (u8, &str, u64, &[u8])> = TableDefinition::new("log");
const REVISION: &str = "revision";
/// Events up to this revision have been forgotten.
const FLOOR: &str = "floor";
/// The file, open and locked.
pub(super) struct Log {
    /// Nothing while it cannot be written: see [`Log::reopen`].
    database: Option<Database>,
    /// Nothing if there is only memory.
    held: Option<Held>,
    /// How many events are kept.
    pub(super) history: usize,
}

impl Log {
    /// Opens the file and reads everything back into memory.
    pub(super) fn open(storage: &Storage, history: usize) -> Result<(Self, State), OpenError> {
        let (database, state, held) = match storage {
            Storage::Memory => {
                let database = Database::builder().create_with_backend(InMemoryBackend::new());
                let database = database.map_err(redb::Error::from)?;
                let state = load(&database)?;
                (database, state, None)
            }
            Storage::Folder(folder) => {
                let held = Held::take(folder)?;
                if held.is_new() {
                    held.create(|database| Ok(fill(database, &[], 0)?))?;
                }
                let (database, state) = match held.open_sealed(load) {
                    Some(opened) => opened,
                    None => {
                        let database = held.open()?;
                        let state = load(&database)?;
                        (database, state)
                    }
                };
                (database, state, Some(held))
            }
        };
        Ok((Self { database: Some(database), held, history }, state))
    }

    /// Opens the file once more after an error, which has closed it; reads what it holds now.
    pub(super) fn reopen(&mut self) -> Result<State, OpenError> {
        // Closed before it is opened again.
        drop(self.database.take());
        let database = self.held.as_ref().ok_or(OpenError::Closed)?.open()?;
        load(self.database.insert(database))
    }

    /// Closes the file in order.
    pub(super) fn close(&mut self) {
        // Nothing is written any more once the engine is gone.
        if self.database.take().is_some()
            && let Some(held) = &self.held
            && let Err(error) = held.close()
        {
            tracing::warn!(%error, "the next start will take longer: the store's file could not be sealed");
        }
    }

    /// Commits events, durably, and forgets those up to `floor`.
    pub(super) fn commit(&self, events: &[Arc<Event>], floor: u64) -> Result<(), OpenError> {
        Ok(self.commit_events(events, floor)?)
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    fn commit_events(&self, events: &[Arc<Event>], floor: u64) -> Result<(), redb::Error> {
        let transaction = self.database()?.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            let mut log = transaction.open_table(LOG)?;
            let mut meta = transaction.open_table(META)?;
            for event in events {
                let key = event.object.key.encode();
                match event.change {
                    Change::Deleted => objects.remove(key.as_str())?,
                    Change::Created | Change::Updated => {
                        objects.insert(key.as_str(), (event.revision, event.object.json.as_ref()))?
                    }
                };
                let (revision, bytes) = match &event.previous {
                    Some(previous) => (previous.revision, previous.json.as_ref()),
                    None => (0, &[][..]),
                };
                log.insert(event.revision, (event.change as u8, key.as_str(), revision, bytes))?;
            }
            if let Some(last) = events.last() {
                meta.insert(REVISION, last.revision)?;
            }
            if meta.insert(FLOOR, floor)?.is_none_or(|before| before.value() != floor) {
                log.retain_in(..=floor, |_, _| false)?;
            }
        }
        // redb's default durability is an fsync at commit.
        Ok(transaction.commit()?)
    }
}

/// Reads everything back into memory.
fn load(database: &impl ReadableDatabase) -> Result<State, OpenError> {
    let (objects, rows, revision, floor) = rows(database)?;
    let mut after: HashMap<Key, Arc<Stored>> = HashMap::new();
    for object in &objects {
        after.insert(object.key.clone(), Arc::clone(object));
    }
    let mut events = Vec::with_capacity(rows.len());
    for row in rows.into_iter().rev() {
        let previous = match row.before {
            0 => None,
            revision => Some(stored(row.key.clone(), revision, row.bytes.into())?),
        };
        let object = match (row.change, &previous) {
            (Change::Deleted, Some(previous)) => stamped(previous, row.revision),
            (Change::Deleted, None) => return Err(OpenError::Row(row.key.encode())),
            (Change::Created | Change::Updated, _) => {
                after.get(&row.key).cloned().ok_or_else(|| OpenError::Row(row.key.encode()))?
            }
        };
        match &previous {
            Some(previous) => after.insert(row.key, Arc::clone(previous)),
            None => after.remove(&row.key),
        };
        events.push(Arc::new(Event { revision: row.revision, change: row.change, object, previous }));
    }
    events.reverse();
    Ok(State::new(revision, floor, objects, events))
}

#[expect(clippy::type_complexity, reason = "read once, by the caller just above")]
fn rows(database: &impl ReadableDatabase) -> Result<(Vec<Arc<Stored>>, Vec<Row>, u64, u64), OpenError> {
    let read = database.begin_read().map_err(redb::Error::from)?;
    let table = match read.open_table(OBJECTS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok((Vec::new(), Vec::new(), 0, 0)),
        table => table.map_err(redb::Error::from)?,
    };
    let objects = both_ways(&table)?;
    let table = read.open_table(LOG).map_err(redb::Error::from)?;
    let mut rows: Vec<Row> = Vec::new();
    for row in table.iter().map_err(redb::Error::from)? {
        let (revision, value) = row.map_err(redb::Error::from)?;
        let (change, key, before, bytes) = value.value();
        let damaged = || OpenError::Row(format!("log {}", revision.value()));
        rows.push(Row {
            revision: revision.value(),
            change: change_from(change).ok_or_else(damaged)?,
            key: Key::decode(key, rows.last().map(|row| &row.key)).ok_or_else(damaged)?,
            before,
            bytes: bytes.to_vec(),
        });
    }
    let meta = read.open_table(META).map_err(redb::Error::from)?;
    let number = |name| -> Result<u64, OpenError> {
        Ok(meta.get(name).map_err(redb::Error::from)?.map_or(0, |value| value.value()))
    };
    Ok((objects, rows, number(REVISION)?, number(FLOOR)?))
}

/// All objects in order, read from both ends until the two meet: it is most of what a start takes.
fn both_ways(
    table: &ReadOnlyTable<&'static str, (u64, &'static [u8])>,
) -> Result<Vec<Arc<Stored>>, OpenError> {
    let left = AtomicU64::new(table.len().map_err(redb::Error::from)?);
    let next = || left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
    thread::scope(|scope| {
        let behind = thread::Builder::new().name(file::CHECK.to_owned());
        let behind =
            behind.spawn_scoped(scope, || objects(table.iter().map_err(redb::Error::from)?.rev(), next));
        let mut all = objects(table.iter().map_err(redb::Error::from)?, next)?;
        let behind = behind.map_err(OpenError::Thread)?.join();
        all.extend(behind.unwrap_or_else(|panic| resume_unwind(panic))?.into_iter().rev());
        Ok(all)
    })
}

type ObjectRow<'a> = (AccessGuard<'a, &'static str>, AccessGuard<'a, (u64, &'static [u8])>);

/// Reads rows as long as there is a next one.
fn objects<'a>(
    mut rows: impl Iterator<Item = Result<ObjectRow<'a>, StorageError>>,
    next: impl Fn() -> bool,
) -> Result<Vec<Arc<Stored>>, OpenError> {
    let mut objects: Vec<Arc<Stored>> = Vec::new();
    while next() {
        let Some(row) = rows.next() else { break };
        let (key, value) = row.map_err(redb::Error::from)?;
        let (revision, bytes) = value.value();
        let before = objects.last().map(|before| &before.key);
        let key = Key::decode(key.value(), before).ok_or_else(|| OpenError::Row(key.value().to_owned()))?;
        objects.push(stored(key, revision, Bytes::copy_from_slice(bytes))?);
    }
    Ok(objects)
}

/// Writes the first rows of a new file, durably: objects without a history, as of a revision.
pub(super) fn fill(database: &Database, objects: &[Arc<Stored>], revision: u64) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(OBJECTS)?;
        for object in objects {
            table.insert(object.key.encode().as_str(), (object.revision, object.json.as_ref()))?;
        }
        transaction.open_table(LOG)?;
        let mut meta = transaction.open_table(META)?;
        for (name, value) in [(VERSION, FORMAT), (REVISION, revision), (FLOOR, revision)] {
            meta.insert(name, value)?;
        }
    }
    Ok(transaction.commit()?)
}

struct Row {
    revision: u64,
    change: Change,
    key: Key,
    before: u64,
    bytes: Vec<u8>,
}

fn change_from(byte: u8) -> Option<Change> {
    [Change::Created, Change::Updated, Change::Deleted].into_iter().find(|change| *change as u8 == byte)
}

fn stored(key: Key, revision: u64, json: Bytes) -> Result<Arc<Stored>, OpenError> {
    // Not parsed: that is most of what a start would cost, and the engine has checked every byte.
    if !json.starts_with(b"{") {
        return Err(OpenError::Row(key.encode()));
    }
    Ok(Arc::new(Stored::new(key, revision, json)))
}

/// The same object under another revision.
pub(super) fn stamped(object: &Stored, revision: u64) -> Arc<Stored> {
    put(object.key.clone(), revision, object.value.once().into_owned())
}

/// An object as it is stored under a revision.
pub(super) fn put(key: Key, revision: u64, mut value: Value) -> Arc<Stored> {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
    }
    // A `Value` has string keys only: serialising it cannot fail.
    let json = serde_json::to_vec(&value).unwrap_or_default().into();
    Arc::new(Stored::new(key, revision, json))
}

#[cfg(test)]
#[path = "crash_tests.rs"]
mod crash_tests;
