//! What the server's own controllers share: they see every event, keep a queue of what to look at, and
//! look at the store's current state when they do. Nothing polls; only what failed is tried again later.

use std::{
    collections::{HashSet, VecDeque},
    future::Future,
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use crate::{
    call::Call,
    object,
    plane::Plane,
    request::options::DeleteOptions,
    shutdown::stopped,
    status::Result,
    store::{Action, Event, Expect, Key, Listing, Stored, Write, WriteError},
    user::User,
    verbs::{delete, update::is_unheld},
};

const BATCH: usize = 1024;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// One of the server's controllers.
pub(crate) trait Controller: Send + 'static {
    /// What it looks at.
    type Item: Clone + Eq + Hash + Send;

    /// Starts from all there is; gives what to look at.
    fn seed(&mut self, everything: &Listing) -> Vec<Self::Item>;

    /// Takes note of an event; gives what to look at because of it.
    fn observe(&mut self, event: &Event) -> Vec<Self::Item>;

    /// Looks at an item, does what is due, gives what to look at next.
    fn process(
        &mut self,
        plane: &Arc<Plane>,
        item: &Self::Item,
    ) -> impl Future<Output = Result<Vec<Self::Item>>> + Send;
}

/// Items in order, each once.
struct Queue<T> {
    order: VecDeque<T>,
    waiting: HashSet<T>,
}

impl<T: Clone + Eq + Hash> Queue<T> {
    fn push(&mut self, items: impl IntoIterator<Item = T>) {
        for item in items {
            if self.waiting.insert(item.clone()) {
                self.order.push_back(item);
            }
        }
    }

    fn pop(&mut self) -> Option<T> {
        let item = self.order.pop_front()?;
        self.waiting.remove(&item);
        Some(item)
    }
}

/// Runs a controller until the server stops.
pub(crate) async fn run<C: Controller>(
    plane: Arc<Plane>,
    mut stopping: watch::Receiver<bool>,
    mut controller: C,
) {
    let mut queue = Queue { order: VecDeque::new(), waiting: HashSet::new() };
    let mut retry: Vec<C::Item> = Vec::new();
    let mut retry_at = Instant::now();
    let mut signal = plane.store.subscribe(None);
    let everything = plane.store.everything();
    let mut cursor = everything.revision;
    queue.push(controller.seed(&everything));
    drop(everything);
    while !*stopping.borrow() {
        signal.mark_unchanged();
        match plane.store.events_after(None, cursor, BATCH) {
            Some(batch) => {
                cursor = batch.through;
                for event in &batch.events {
                    queue.push(controller.observe(event));
                }
            }
            None => {
                // Left behind by the window: begin again from what there is.
                let everything = plane.store.everything();
                cursor = everything.revision;
                queue.push(controller.seed(&everything));
            }
        }
        if let Some(item) = queue.pop() {
            match controller.process(&plane, &item).await {
                Ok(next) => queue.push(next),
                Err(error) => {
                    tracing::warn!(%error, "a controller will try again");
                    retry.push(item);
                    retry_at = Instant::now() + RETRY_AFTER;
                }
            }
            continue;
        }
        tokio::select! {
            changed = signal.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(retry_at), if !retry.is_empty() => queue.push(retry.drain(..)),
            () = stopped(&mut stopping) => return,
        }
    }
}

/// Changes an object of this uid as it is stored, past all rules; removes it if nothing keeps it then.
pub(crate) async fn edit(plane: &Plane, key: &Key, uid: &str, change: impl Fn(&mut Value)) -> Result<()> {
    loop {
        let Some(stored) = plane.store.get(key).filter(|stored| object::uid(&stored.value.head()) == uid)
        else {
            return Ok(());
        };
        let before = stored.value.once();
        let mut value = before.clone().into_owned();
        change(&mut value);
        if value == *before {
            return Ok(());
        }
        let finished = object::is_terminating(&value) && is_unheld(&value);
        let action = if finished { Action::Delete } else { Action::Put(value) };
        let expect = Expect::Revision(stored.revision);
        match plane.store.write(Write { key: key.clone(), expect, action, guards: Vec::new() }).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Deletes an object as a client would, if it still is the one that was seen.
pub(crate) async fn remove(plane: &Arc<Plane>, seen: &Stored, options: &DeleteOptions) -> Result<()> {
    let uid = object::uid(&seen.value.head()).to_owned();
    let Some(call) = Call::internal(plane, &seen.key, &User::controller("garbage-collector")) else {
        // Its CRD is gone, so nobody is left to wait for it.
        return edit(plane, &seen.key, &uid, |value| {
            object::set_finalizers(value, Vec::new());
            object::metadata_mut(value).insert("deletionTimestamp".to_owned(), "now".into());
        })
        .await;
    };
    let options = DeleteOptions { uid: Some(uid), ..options.clone() };
    match delete::delete(&call, &options).await {
        Err(error) if matches!(error.reason(), "NotFound" | "Conflict") => Ok(()),
        deleted => deleted.map(drop),
    }
}
