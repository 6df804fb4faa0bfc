//! The stream behind a watch. It has a cursor, not a queue: it takes what the store has beyond the cursor when the
//! client is ready for more, so a slow client costs nothing. A client that falls out of the store's window gets an
//! error (410) and the stream ends; no event is ever left out silently.

use std::{borrow::Cow, collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream::{self, Stream};
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};

use super::{EventType, Lines, relative};
use crate::{
    call::Call,
    chunked_list::CHUNK,
    request::options::{Freshness, ListOptions},
    shutdown::stopped,
    status::{ApiError, Result},
    store::Stored,
    verbs::read::Filter,
};

/// As many events as are written at once.
const BATCH: usize = 256;
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// For clients that do not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);
/// Whoever asks for longer may come again: what they may see is looked at then.
const LONGEST: Duration = Duration::from_hours(24);

struct Watcher {
    call: Call,
    filter: Filter,
    lines: Lines,
    /// Everything up to this revision has been written.
    cursor: u64,
    signal: watch::Receiver<u64>,
    bookmarks: Option<Interval>,
    deadline: Instant,
    shutdown: watch::Receiver<bool>,
    /// What there was at the beginning and is still to be written, before anything that happened since.
    initial: VecDeque<Arc<Stored>>,
    /// Whether the end of it is to be told.
    end: bool,
    /// To be written before anything else.
    ready: VecDeque<Bytes>,
    done: bool,
}

/// Why a watcher woke up.
enum Woken {
    Changed,
    Tick,
    Over,
}

/// Opens a watch.
pub(crate) async fn open(
    call: Call,
    options: &ListOptions,
    lines: Lines,
    shutdown: watch::Receiver<bool>,
) -> Result<impl Stream<Item = Bytes> + Send + use<>> {
    let filter = Filter::new(&call, options)?;
    // Subscribed before the first look, so that nothing falls between.
    let signal = call.plane.store.subscribe(Some(&call.resource.stored_as));
    let initial = match (options.initial_events, options.freshness) {
        (Some(wanted), _) => wanted,
        (None, Freshness::Latest | Freshness::Any) => true,
        (None, _) => false,
    };
    let current = call.plane.store.revision();
    let (cursor, initial) = match (initial, options.freshness) {
        (true, Freshness::NotOlderThan(asked)) if asked > current => {
            return Err(ApiError::revision_too_large(asked, current));
        }
        (true, _) => {
            let namespace = Some(call.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let listing = call.plane.store.list(&call.resource.stored_as, namespace);
            let seen = listing.items.into_iter().filter(|stored| filter.matches(stored));
            (listing.revision, seen.collect())
        }
        (false, Freshness::NotOlderThan(asked) | Freshness::Exact(asked)) => (asked, VecDeque::new()),
        (false, _) => (current, VecDeque::new()),
    };
    let bookmarks = options.bookmarks.then(|| {
        let mut bookmarks = interval_at(Instant::now() + BOOKMARK_EVERY, BOOKMARK_EVERY);
        bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        bookmarks
    });
    let deadline = Instant::now() + options.timeout.unwrap_or(DEFAULT_TIMEOUT).min(LONGEST);
    let end = options.initial_events == Some(true);
    let (ready, done) = (VecDeque::new(), false);
    let mut watcher = Watcher {
        call,
        filter,
        lines,
        cursor,
        signal,
        bookmarks,
        deadline,
        shutdown,
        initial,
        end,
        ready,
        done,
    };
    // What cannot be shown is told before the stream begins.
    watcher.begin().await?;
    Ok(stream::unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((bytes, watcher))
    }))
}

/// How many of these sizes make a piece, or a little more than one.
fn fill(sizes: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fits = |size: usize| {
        let fits = sum < CHUNK;
        sum += size;
        fits
    };
    sizes.map(fits).take_while(|fits| *fits).count()
}

impl Watcher {
    /// The next bytes; nothing once the stream is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            if self.done {
                return None;
            }
            if !self.initial.is_empty() || self.end {
                if let Err(error) = self.begin().await {
                    self.fail(&error);
                }
                continue;
            }
            self.signal.mark_unchanged();
            self.take().await?;
            if self.ready.is_empty() && !self.done {
                let bytes = self.wait().await;
                self.ready.extend(bytes);
            }
        }
    }

    /// Makes the next piece of what there was at the beginning.
    async fn begin(&mut self) -> Result<()> {
        let count = fill(self.initial.iter().map(|stored| stored.json.len()));
        let seen: Vec<_> =
            self.initial.drain(..count).map(|stored| (EventType::Added, Cow::Owned(stored))).collect();
        self.ready.extend(self.lines.objects(&self.call, &seen).await?);
        if self.initial.is_empty() && std::mem::take(&mut self.end) {
            self.ready.push_back(self.lines.bookmark(&self.call, self.cursor, true));
        }
        Ok(())
    }

    /// Makes the next piece of what has happened since; nothing if the resource is gone.
    async fn take(&mut self) -> Option<()> {
        self.refresh()?;
        loop {
            let resource = &self.call.resource.stored_as;
            let Some(mut batch) = self.call.plane.store.events_after(Some(resource), self.cursor, BATCH)
            else {
                let current = self.call.plane.store.revision();
                let message = format!("too old resource version: {} ({current})", self.cursor);
                self.fail(&ApiError::expired(message));
                return Some(());
            };
            let count = fill(batch.events.iter().map(|event| event.object.json.len()));
            let is_cut = count < batch.events.len();
            let more = is_cut || batch.events.len() == BATCH;
            if is_cut {
                batch.events.truncate(count);
                batch.through = batch.events.last().map_or(self.cursor, |event| event.revision);
            }
            let matches = |stored: &Stored| self.filter.matches(stored);
            let seen: Vec<_> = batch.events.iter().filter_map(|event| relative(event, matches)).collect();
            match self.lines.objects(&self.call, &seen).await {
                Ok(chunks) => self.ready.extend(chunks),
                Err(error) => {
                    // Nothing may be left out: the client begins again, from where it was.
                    self.fail(&error);
                    return Some(());
                }
            }
            self.cursor = batch.through;
            if !more || !self.ready.is_empty() {
                return Some(());
            }
        }
    }

    /// Ends the stream with the reason.
    fn fail(&mut self, error: &ApiError) {
        self.done = true;
        self.ready.push_back(self.lines.error(error));
    }

    /// Sleeps until there is something to look at; gives a bookmark if it is time for one.
    async fn wait(&mut self) -> Option<Bytes> {
        let tick = async {
            match &mut self.bookmarks {
                Some(bookmarks) => drop(bookmarks.tick().await),
                None => std::future::pending().await,
            }
        };
        let woken = tokio::select! {
            changed = self.signal.changed() => if changed.is_ok() { Woken::Changed } else { Woken::Over },
            () = tick => Woken::Tick,
            () = tokio::time::sleep_until(self.deadline) => Woken::Over,
            () = stopped(&mut self.shutdown) => Woken::Over,
        };
        match woken {
            Woken::Changed => None,
            Woken::Tick => Some(self.lines.bookmark(&self.call, self.cursor, false)),
            Woken::Over => self.finish(),
        }
    }

    /// The last bookmark, so that the client can resume where it was.
    fn finish(&mut self) -> Option<Bytes> {
        self.done = true;
        self.bookmarks.is_some().then(|| self.lines.bookmark(&self.call, self.cursor, false))
    }

    /// Follows the registry: a CRD may have changed, or gone.
    fn refresh(&mut self) -> Option<()> {
        let registry = self.call.plane.registry();
        if Arc::ptr_eq(&registry, &self.call.registry) {
            return Some(());
        }
        let resource = registry.get(self.call.resource.name.group(), self.call.resource.name.resource())?;
        let version = resource.version(&self.call.version.name)?;
        (self.call.resource, self.call.version) = (Arc::clone(resource), Arc::clone(version));
        self.call.registry = registry;
        Some(())
    }
}
