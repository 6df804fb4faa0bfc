//! Deletes Events after a time, as kube-apiserver does (`--event-ttl`). Every write restarts the time. No event reports
//! that an Event is old, so this runs every minute.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;

use super::engine;
use crate::{object, plane::Plane, request::options::DeleteOptions, shutdown::stopped, store::GroupResource};

const LONGEST_WAIT: Duration = Duration::from_secs(60);
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// Deletions at once: the store commits them together.
const TOGETHER: usize = 64;

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, ttl: Duration, mut stopping: watch::Receiver<bool>) {
    let events = GroupResource::new("", "events");
    let lifetime = SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX);
    let wait = (ttl / 10).clamp(SHORTEST_WAIT, LONGEST_WAIT);
    loop {
        let now = plane.now();
        let mut old = plane.store.list(&events, None).items;
        old.retain(|stored| is_expired(&stored.value.once(), lifetime, now));
        let clean = futures::stream::iter(old).for_each_concurrent(TOGETHER, |stored| {
            let plane = Arc::clone(&plane);
            async move {
                if let Err(error) = engine::remove(&plane, &stored, &DeleteOptions::default()).await {
                    tracing::warn!(%error, "cannot delete an expired Event");
                }
            }
        });
        tokio::select! {
            () = clean => {}
            () = stopped(&mut stopping) => return,
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stopped(&mut stopping) => return,
        }
    }
}

/// Whether the last write of an Event is longer ago than `lifetime`.
fn is_expired(event: &Value, lifetime: SignedDuration, now: Timestamp) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let created = time(object::meta_str(event, "creationTimestamp"));
    let managed = event["metadata"]["managedFields"].as_array();
    let written = managed.into_iter().flatten().filter_map(|entry| time(entry["time"].as_str()?));
    // A client may send any time in its managed fields: one in the future does not count.
    let last = created.into_iter().chain(written).filter(|time| *time <= now).max();
    // Without a time it is from a future of the clock, which was set back: it expires once the clock is there.
    last.is_some_and(|last| now.duration_since(last) > lifetime)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_expires_after_its_last_write() {
        let hour = SignedDuration::from_hours(1);
        let expired = |event: &Value, now: &str| is_expired(event, hour, now.parse().unwrap());
        let event = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
        assert!(!expired(&event, "2026-01-01T01:00:00Z") && expired(&event, "2026-01-01T01:00:01Z"));
        let written = |time: &str| {
            json!({"metadata": {
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"manager": "a"}, {"manager": "b", "time": time}],
            }})
        };
        let again = written("2026-01-01T00:30:00Z");
        assert!(!expired(&again, "2026-01-01T01:30:00Z") && expired(&again, "2026-01-01T01:30:01Z"));
        assert!(expired(&written("2026-01-01T09:00:00Z"), "2026-01-01T01:00:01Z"), "a time of the client");
        assert!(!expired(&json!({"metadata": {}}), "2026-01-01T01:00:01Z"));
    }
}
