//! The one writer: checks, numbers, commits, publishes, acknowledges, in that order.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use crate::object::MOST_BYTES;

use super::{
    Action, Change, Event, Expect, Job, Key, LastFailure, Observer, OpenError, Reply, Stored, Write,
    WriteError,
    index::State,
    log::{self, Log},
};

/// As many writes as one fsync may carry.
const GROUP: usize = 256;
/// How long writes are refused out of hand before it is tried whether the disk has room again: to open the
/// file means to read it.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// As much as the window may keep alive, as JSON: whoever changes one large object often shortens the window, and does not
/// fill the memory.
const HEAVIEST: usize = 64 << 20;

pub(super) struct Writer {
    log: Log,
    state: Arc<RwLock<State>>,
    observer: Observer,
    /// Why nothing can be written at the moment.
    failure: Option<Failure>,
    reports: Reports,
}

/// What the store reads of its writer.
pub(super) struct Reports {
    /// Why the last commit failed; nothing once one has succeeded.
    pub(super) last_failure: LastFailure,
    pub(super) has_probe: Arc<AtomicBool>,
}

impl Reports {
    fn has_failed(&self) -> bool {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn set(&self, failure: Option<Arc<OpenError>>) {
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}

struct Failure {
    error: Arc<OpenError>,
    seen: Instant,
}

/// What the group has done so far, over what is published.
#[derive(Default)]
struct Group {
    overlay: HashMap<Key, Option<Arc<Stored>>>,
    events: Vec<Arc<Event>>,
    replies: Vec<(Reply, Arc<Stored>)>,
}

impl Writer {
    pub(super) fn new(log: Log, state: Arc<RwLock<State>>, observer: Observer, reports: Reports) -> Self {
        Self { log, state, observer, failure: None, reports }
    }

    /// Works until every sender is gone.
    pub(super) fn run(mut self, queue: &mpsc::Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            if let Some(error) = self.unusable() {
                match first {
                    Job::Write(_, reply) => drop(reply.send(Err(WriteError::Commit(error)))),
                    Job::Probe => self.reports.has_probe.store(false, Ordering::Relaxed),
                }
                continue;
            }
            let mut group = Group::default();
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Write(write, reply) => match self.admit(&mut group, write) {
                        Ok(object) => group.replies.push((reply, object)),
                        // The other end has stopped waiting: nothing to tell it.
                        Err(error) => drop(reply.send(Err(error))),
                    },
                    Job::Probe => self.reports.has_probe.store(false, Ordering::Relaxed),
                }
                next = if group.replies.len() < GROUP { queue.try_recv().ok() } else { None };
            }
            self.finish(group);
        }
        if self.failure.is_none() {
            self.log.close();
        }
    }

    /// Checks a write against what it expects and gives it its revision.
    fn admit(&self, group: &mut Group, write: Write) -> Result<Arc<Stored>, WriteError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let current = |key: &Key| match group.overlay.get(key) {
            Some(object) => object.clone(),
            None => state.get(key),
        };
        let guarded = |(key, revision): &(Key, u64)| current(key).is_some_and(|o| o.revision == *revision);
        if !write.guards.iter().all(guarded) {
            return Err(WriteError::Conflict);
        }
        let previous = current(&write.key);
        let found = previous.as_ref().map_or(Expect::Absent, |object| Expect::Revision(object.revision));
        if found != write.expect {
            return Err(WriteError::Conflict);
        }
        let revision = group.events.last().map_or_else(|| state.revision(), |event| event.revision) + 1;
        let (change, object) = match (write.action, &previous) {
            (Action::Put(value), None) => (Change::Created, log::put(write.key.clone(), revision, value)),
            (Action::Put(value), Some(_)) => (Change::Updated, log::put(write.key.clone(), revision, value)),
            (Action::Delete, Some(previous)) => (Change::Deleted, log::stamped(previous, revision)),
            (Action::Delete, None) => return Err(WriteError::Conflict),
        };
        if change != Change::Deleted && object.json.len() > MOST_BYTES {
            return Err(WriteError::TooLarge);
        }
        let after = (change != Change::Deleted).then(|| Arc::clone(&object));
        group.overlay.insert(write.key, after);
        group.events.push(Arc::new(Event { revision, change, object: Arc::clone(&object), previous }));
        Ok(object)
    }

    fn finish(&mut self, group: Group) {
        if group.events.is_empty() && !self.reports.has_failed() {
            return;
        }
        let floor = self.floor_after(&group);
        if let Err(error) = self.log.commit(&group.events, floor) {
            let error = self.fail(error);
            for (reply, _) in group.replies {
                drop(reply.send(Err(WriteError::Commit(Arc::clone(&error)))));
            }
            return;
        }
        self.reports.set(None);
        if group.events.is_empty() {
            return;
        }
        self.publish(&group.events, floor);
        for (reply, object) in group.replies {
            drop(reply.send(Ok(object)));
        }
    }

    fn publish(&self, events: &[Arc<Event>], floor: u64) {
        (self.observer)(events);
        self.state.write().unwrap_or_else(PoisonError::into_inner).publish(events, floor);
    }

    fn fail(&mut self, error: OpenError) -> Arc<OpenError> {
        tracing::error!(error = &error as &dyn std::error::Error, "cannot write to the store");
        let error = Arc::new(error);
        self.failure = Some(Failure { error: Arc::clone(&error), seen: Instant::now() });
        self.reports.set(Some(Arc::clone(&error)));
        error
    }

    /// Why nothing can be written. A full disk is looked at again; after any other error what the disk
    /// really holds is anybody's guess, and only a new start reads it afresh.
    fn unusable(&mut self) -> Option<Arc<OpenError>> {
        let Failure { error, seen } = self.failure.as_ref()?;
        if !matches!(**error, OpenError::Full) || seen.elapsed() < RETRY_AFTER {
            return Some(Arc::clone(error));
        }
        match self.log.reopen().and_then(|found| self.catch_up(&found)) {
            Ok(()) => {
                self.failure = None;
                tracing::info!("the store can be written again");
                None
            }
            Err(error) => Some(self.fail(error)),
        }
    }

    /// Publishes what is in the file and was refused all the same: the error came after the commit.
    fn catch_up(&mut self, found: &State) -> Result<(), OpenError> {
        let known = self.state.read().unwrap_or_else(PoisonError::into_inner).revision();
        // A window so small that it has forgotten them: only a new start reads everything.
        let missed = found.events_after(None, known, usize::MAX).ok_or(OpenError::Closed)?;
        if !missed.events.is_empty() {
            self.publish(&missed.events, found.floor());
        }
        Ok(())
    }

    /// The floor that keeps the window at its size, the new events included.
    fn floor_after(&self, group: &Group) -> u64 {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let weight: usize = group.events.iter().map(|event| event.weight()).sum();
        let (mut count, mut weight) = (state.window() + group.events.len(), state.weight() + weight);
        let mut floor = state.floor();
        for event in state.events().chain(&group.events) {
            if count <= self.log.history && weight <= HEAVIEST {
                break;
            }
            count -= 1;
            weight -= event.weight();
            floor = event.revision;
        }
        floor
    }
}
