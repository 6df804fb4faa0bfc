//! The stream behind a watch. It holds a cursor, not a queue: it takes what the store has beyond the
//! cursor when the client is ready for more, so a slow client costs nothing. One that falls out of the
//! store's window is told so (410) and closed; no event is ever left out silently.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream::{self, Stream};
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};

use super::{Kind, Lines, error_line, relative};
use crate::{
    request::options::{Freshness, ListOptions},
    server::stopped,
    status::{ApiError, Result},
    store::Stored,
    verbs::{Call, read::Filter},
};

/// As many events as are written at once.
const BATCH: usize = 256;
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// For clients that do not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);
/// Whoever asks for longer may come again.
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
    /// To be written before anything else.
    first: Option<Bytes>,
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
    mut lines: Lines,
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
    let (cursor, first) = match (initial, options.freshness) {
        (true, Freshness::NotOlderThan(asked)) if asked > current => {
            return Err(ApiError::revision_too_large(asked, current));
        }
        (true, _) => {
            let (revision, bytes) =
                initial_events(&call, &filter, &mut lines, options.initial_events == Some(true)).await?;
            (revision, Some(bytes))
        }
        (false, Freshness::NotOlderThan(asked) | Freshness::Exact(asked)) => (asked, None),
        (false, _) => (current, None),
    };
    let bookmarks = options.bookmarks.then(|| {
        let mut bookmarks = interval_at(Instant::now() + BOOKMARK_EVERY, BOOKMARK_EVERY);
        bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        bookmarks
    });
    let deadline = Instant::now() + options.timeout.unwrap_or(DEFAULT_TIMEOUT).min(LONGEST);
    let watcher =
        Watcher { call, filter, lines, cursor, signal, bookmarks, deadline, shutdown, first, done: false };
    Ok(stream::unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((bytes, watcher))
    }))
}

async fn initial_events(call: &Call, filter: &Filter, lines: &mut Lines, end: bool) -> Result<(u64, Bytes)> {
    let namespace = Some(call.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let listing = call.plane.store.list(&call.resource.stored_as, namespace);
    let seen = listing.items.iter().filter(|stored| filter.matches(stored));
    let seen: Vec<_> = seen.map(|stored| (Kind::Added, Cow::Borrowed(stored))).collect();
    let mut bytes = lines.objects(call, &seen).await?;
    if end {
        bytes.extend_from_slice(&lines.bookmark(call, listing.revision, true));
    }
    Ok((listing.revision, bytes.freeze()))
}

impl Watcher {
    /// The next bytes; nothing once the stream is over.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Some(first);
        }
        while !self.done {
            self.signal.mark_unchanged();
            match self.take().await {
                Some(bytes) if !bytes.is_empty() => return Some(bytes),
                Some(_) => {}
                None => break,
            }
            if let Some(bytes) = self.wait().await {
                return Some(bytes);
            }
        }
        None
    }

    /// What has happened since; empty if nothing has, nothing if the resource is gone.
    async fn take(&mut self) -> Option<Bytes> {
        self.refresh()?;
        loop {
            let resource = &self.call.resource.stored_as;
            let Some(batch) = self.call.plane.store.events_after(Some(resource), self.cursor, BATCH) else {
                self.done = true;
                let current = self.call.plane.store.revision();
                let error =
                    ApiError::expired(format!("too old resource version: {} ({current})", self.cursor));
                return Some(error_line(&error));
            };
            let matches = |stored: &Stored| self.filter.matches(stored);
            let seen: Vec<_> = batch.events.iter().filter_map(|event| relative(event, matches)).collect();
            let bytes = match self.lines.objects(&self.call, &seen).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    // Nothing may be left out: the client begins again, from where it was.
                    self.done = true;
                    return Some(error_line(&error));
                }
            };
            let more = batch.events.len() == BATCH;
            self.cursor = batch.through;
            if !more || !bytes.is_empty() {
                return Some(bytes.freeze());
            }
        }
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
