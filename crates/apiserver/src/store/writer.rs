//! The one writer: checks, numbers, commits, publishes, acknowledges, in that order.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, mpsc},
};

use super::{
    Action, Change, Event, Expect, Job, Key, Observer, OpenError, Reply, Stored, Write, WriteError,
    index::State,
    log::{self, Log},
};

/// As many writes as one fsync may carry.
const GROUP: usize = 256;

pub(super) struct Writer {
    log: Log,
    state: Arc<RwLock<State>>,
    observer: Observer,
}

/// What the group has done so far, over what is published.
#[derive(Default)]
struct Group {
    overlay: HashMap<Key, Option<Arc<Stored>>>,
    events: Vec<Arc<Event>>,
    replies: Vec<(Reply, Arc<Stored>)>,
}

impl Writer {
    pub(super) fn new(log: Log, state: Arc<RwLock<State>>, observer: Observer) -> Self {
        Self { log, state, observer }
    }

    /// Works until every sender is gone.
    pub(super) fn run(self, queue: &mpsc::Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let mut group = Group::default();
            let mut next = Some(first);
            while let Some((write, reply)) = next {
                match self.admit(&mut group, write) {
                    Ok(object) => group.replies.push((reply, object)),
                    // The other end has stopped waiting: nothing to tell it.
                    Err(error) => drop(reply.send(Err(error))),
                }
                next = if group.replies.len() < GROUP { queue.try_recv().ok() } else { None };
            }
            self.finish(group);
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
        let after = (change != Change::Deleted).then(|| Arc::clone(&object));
        group.overlay.insert(write.key, after);
        group.events.push(Arc::new(Event { revision, change, object: Arc::clone(&object), previous }));
        Ok(object)
    }

    fn finish(&self, group: Group) {
        if group.events.is_empty() {
            return;
        }
        let floor = self.floor_after(&group);
        if let Err(error) = self.log.commit(&group.events, floor) {
            tracing::error!(%error, "cannot commit to the store");
            return refuse(group.replies, error);
        }
        (self.observer)(&group.events);
        self.state.write().unwrap_or_else(PoisonError::into_inner).publish(&group.events, floor);
        for (reply, object) in group.replies {
            drop(reply.send(Ok(object)));
        }
    }

    /// The floor that keeps the window at its size, the new events included.
    fn floor_after(&self, group: &Group) -> u64 {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let excess = (state.window() + group.events.len()).saturating_sub(self.log.history);
        let newest_forgotten = match excess {
            0 => return state.floor(),
            excess if excess <= state.window() => state.event_at(excess - 1),
            excess => group.events.get(excess - state.window() - 1).map(|event| event.revision),
        };
        newest_forgotten.unwrap_or_else(|| state.floor())
    }
}

fn refuse(replies: Vec<(Reply, Arc<Stored>)>, error: OpenError) {
    let error = Arc::new(error);
    for (reply, _) in replies {
        drop(reply.send(Err(WriteError::Commit(Arc::clone(&error)))));
    }
}
