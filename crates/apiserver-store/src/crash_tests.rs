//! Power failures and failing disks, at every operation on the store's file.
//!
//! A disk keeps what was synced. Of what was written since then it keeps any part: nothing, everything, some pages, half a
//! page. After each operation of a history of commits several such disks are read back: every acknowledged commit must be
//! there whole, and of the one that was under way all or nothing.
//!
//! `CAPSTAN_SEED` repeats a run; otherwise the seed is new, and printed.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::{SystemTime, UNIX_EPOCH},
};

use redb::{Database, StorageBackend, backends::InMemoryBackend};
use serde_json::json;

use super::*;
use crate::GroupResource;

const COMMITS: usize = 24;
/// A disk writes this many bytes whole or not at all.
const SECTOR: usize = 512;
/// Disks that keep a random part, for each operation.
const RANDOM_DISKS: usize = 2;

/// Random numbers that a seed repeats (splitmix64).
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    fn is_lucky(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

fn dice() -> Dice {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed =
        std::env::var("CAPSTAN_SEED").map_or(u64::from(now.subsec_nanos()), |seed| seed.parse().unwrap());
    println!("CAPSTAN_SEED={seed}");
    Dice(seed)
}

/// What was asked of a disk since it was synced.
#[derive(Clone)]
enum Unsynced {
    Length(usize),
    Write { offset: usize, bytes: Vec<u8> },
}

impl Unsynced {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Length(length) => content.resize(*length, 0),
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
        }
    }

    /// The part of it that a power failure leaves: whole sectors, each or not.
    fn torn(&self, dice: &mut Dice) -> Vec<Self> {
        let Self::Write { offset, bytes } = self else { return vec![self.clone()] };
        let mut kept = Vec::new();
        let mut start = 0;
        while start < bytes.len() {
            let end = bytes.len().min((offset + start) / SECTOR * SECTOR + SECTOR - offset);
            if dice.is_lucky() {
                kept.push(Self::Write { offset: offset + start, bytes: bytes[start..end].to_vec() });
            }
            start = end;
        }
        kept
    }
}

#[derive(Default)]
struct Content {
    synced: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<Unsynced>,
    /// Commits that have been acknowledged.
    acknowledged: usize,
    operations: usize,
    /// From this operation on every one fails.
    fails_from: Option<(usize, io::ErrorKind)>,
    /// A disk that says that it has synced, and has not.
    lies: bool,
    dice: Option<Dice>,
    /// What power failures would have left, with the commits that had been acknowledged.
    images: Vec<(usize, Vec<u8>)>,
}

impl Content {
    fn operation(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.fails_from {
            Some((from, kind)) if self.operations > from => Err(kind.into()),
            _ => Ok(()),
        }
    }

    /// Takes pictures of what a power failure at this moment would leave.
    fn fails_now(&mut self) {
        let Some(mut dice) = self.dice.take() else { return };
        self.images.push((self.acknowledged, self.synced.clone()));
        self.images.push((self.acknowledged, self.current.clone()));
        for _ in 0..RANDOM_DISKS {
            let mut content = self.synced.clone();
            let mut kept: Vec<Unsynced> = Vec::new();
            for unsynced in &self.unsynced {
                match dice.below(4) {
                    0 => {}
                    1 => kept.extend(unsynced.torn(&mut dice)),
                    _ => kept.push(unsynced.clone()),
                }
            }
            // Not in the order they were asked for.
            for place in (1..kept.len()).rev() {
                kept.swap(place, dice.below(place + 1));
            }
            kept.iter().for_each(|unsynced| unsynced.apply(&mut content));
            self.images.push((self.acknowledged, content));
        }
        self.dice = Some(dice);
    }
}

#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Content>>);

impl Disk {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }

    fn change(&self, unsynced: Unsynced) -> io::Result<()> {
        let mut content = self.content();
        content.operation()?;
        unsynced.apply(&mut content.current);
        content.unsynced.push(unsynced);
        content.fails_now();
        Ok(())
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disk")
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (content, offset) = (self.content(), usize::try_from(offset).unwrap());
        let found = content.current.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change(Unsynced::Length(usize::try_from(length).unwrap()))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.content();
        content.operation()?;
        if !content.lies {
            content.synced = content.current.clone();
            content.unsynced.clear();
        }
        content.fails_now();
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(Unsynced::Write { offset: usize::try_from(offset).unwrap(), bytes: bytes.to_vec() })
    }
}

type Objects = BTreeMap<String, (u64, Bytes)>;

/// Objects after each commit of a history, and the events of each.
struct History {
    commits: Vec<Vec<Arc<Event>>>,
    after: Vec<Objects>,
}

impl History {
    fn random(dice: &mut Dice) -> Self {
        let mut objects: BTreeMap<String, Arc<Stored>> = BTreeMap::new();
        let (mut commits, mut after, mut revision) = (Vec::new(), vec![Objects::new()], 0);
        for _ in 0..COMMITS {
            let mut events = Vec::new();
            for _ in 0..=dice.below(4) {
                revision += 1;
                let name = format!("o{}", dice.below(6));
                let key = Key::new(GroupResource::new("", "configmaps"), "default", &name);
                let previous = objects.get(&name).cloned();
                let (change, object) = match &previous {
                    Some(previous) if dice.below(3) == 0 => (Change::Deleted, stamped(previous, revision)),
                    _ => {
                        let text = "x".repeat(dice.below(20_000));
                        let value = json!({"metadata": {"name": name}, "text": text, "n": revision});
                        let change = if previous.is_some() { Change::Updated } else { Change::Created };
                        (change, put(key, revision, value))
                    }
                };
                match change {
                    Change::Deleted => objects.remove(&name),
                    _ => objects.insert(name, Arc::clone(&object)),
                };
                events.push(Arc::new(Event { revision, change, object, previous }));
            }
            commits.push(events);
            after.push(
                objects
                    .iter()
                    .map(|(name, object)| (name.clone(), (object.revision, object.json.clone())))
                    .collect(),
            );
        }
        Self { commits, after }
    }

    /// Commits until the disk fails. Says whether it failed.
    fn run(&self, disk: &Disk) -> bool {
        let Ok(database) = Database::builder().create_with_backend(disk.clone()) else { return true };
        if fill(&database, &[], 0).is_err() {
            return true;
        }
        // A power failure before there is a store is not what is looked at: the file gets its name when it is whole.
        disk.content().images.clear();
        let log = Log { database: Some(database), held: None, history: 100 };
        for events in &self.commits {
            if log.commit(events, 0).is_err() {
                return true;
            }
            disk.content().acknowledged += 1;
        }
        false
    }

    /// Why what is read back is not what it must be.
    fn complaint(&self, acknowledged: usize, content: &[u8]) -> Option<String> {
        let backend = InMemoryBackend::new();
        backend.set_len(content.len() as u64).unwrap();
        backend.write(0, content).unwrap();
        let read = std::panic::catch_unwind(move || {
            let database =
                Database::builder().create_with_backend(backend).map_err(|error| error.to_string())?;
            load(&database).map_err(|error| error.to_string())
        });
        let state = match read {
            Err(_) => return Some(format!("after {acknowledged} commits it cannot be read: panic")),
            Ok(Err(error)) => {
                return Some(format!("after {acknowledged} commits it cannot be read: {error}"));
            }
            Ok(Ok(state)) => state,
        };
        let objects: Objects = state
            .everything()
            .items
            .iter()
            .map(|object| (object.key.name.clone(), (object.revision, object.json.clone())))
            .collect();
        let possible =
            self.after.get(acknowledged..self.after.len().min(acknowledged + 2)).unwrap_or_default();
        (!possible.contains(&objects)).then(|| {
            let revisions = |objects: &Objects| {
                objects.iter().map(|(name, (revision, _))| format!("{name}@{revision}")).collect::<Vec<_>>()
            };
            let expected: Vec<_> = possible.iter().map(revisions).collect();
            format!(
                "after {acknowledged} commits it holds {:?} instead of one of {expected:?}",
                revisions(&objects)
            )
        })
    }
}

/// The first complaint over all power failures of a history.
fn first_complaint(lies: bool, dice: &mut Dice) -> Option<String> {
    let history = History::random(dice);
    let disk = Disk::default();
    {
        let mut content = disk.content();
        (content.lies, content.dice) = (lies, Some(Dice(dice.next())));
    }
    assert!(!history.run(&disk), "this disk does not fail");
    let images = std::mem::take(&mut disk.content().images);
    assert!(images.len() > COMMITS * 4, "{} images", images.len());
    images.into_iter().find_map(|(acknowledged, content)| history.complaint(acknowledged, &content))
}

#[test]
fn acknowledged_commits_survive_a_power_failure() {
    assert_eq!(first_complaint(false, &mut dice()), None);
}

/// The test above notices when nothing is synced.
#[test]
fn a_disk_that_does_not_sync_is_noticed() {
    let complaint = first_complaint(true, &mut dice()).expect("a complaint");
    assert!(complaint.contains("instead of one of") || complaint.contains("cannot be read"), "{complaint}");
}

#[test]
fn acknowledged_commits_survive_a_disk_that_fails() {
    let mut dice = dice();
    let history = History::random(&mut dice);
    let whole = Disk::default();
    assert!(!history.run(&whole));
    let operations = whole.content().operations;
    assert!(operations > COMMITS * 2, "{operations} operations");
    for from in (0..operations).step_by(7) {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
            let disk = Disk::default();
            disk.content().fails_from = Some((from, kind));
            // The last operations close the file, when every commit is acknowledged.
            history.run(&disk);
            let content = disk.content();
            if content.synced.is_empty() || content.acknowledged == 0 {
                continue;
            }
            for image in [&content.synced, &content.current] {
                assert_eq!(history.complaint(content.acknowledged, image), None, "from {from}: {kind}");
            }
        }
    }
}
