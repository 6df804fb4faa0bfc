//! Who writes and who watches, and what they hold the server to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use serde_json::json;

use crate::server::HISTORY;

/// Long, for a machine that is busy with other things.
const DEADLINE: Duration = Duration::from_secs(60);

/// Enough of a generator to choose moments and objects.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What is known of one object, which only one task writes to.
#[derive(Clone, Default)]
struct Known {
    /// Its number as acknowledged last; nothing if it is not there.
    acked: Option<u64>,
    /// What was asked for and not answered: it may have happened or not.
    asked: Option<Option<u64>>,
}

#[derive(Default)]
struct Pages {
    objects: BTreeMap<String, Known>,
    /// Of every write that was acknowledged.
    revisions: BTreeSet<u64>,
    /// Revisions of a new life are beyond this.
    newest: u64,
    next: u64,
    /// How many were known when this life began.
    before: usize,
}

/// What was acknowledged.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Pages>>);

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn revision(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

/// The number an object carries; it is in there many times, so that half an object would show.
fn whole(map: &ConfigMap) -> u64 {
    let data = map.data.as_ref().unwrap();
    let number = data["number"].parse().unwrap();
    assert_eq!(data["body"], body(number), "{} is torn", map.name_any());
    number
}

fn body(number: u64) -> String {
    format!("{number} ").repeat(300)
}

impl Ledger {
    /// Writes to objects of its own until the server is gone.
    pub(crate) async fn write(self, client: Client, task: u64, seed: u64) {
        let mut dice = Dice(seed);
        let maps = maps(&client);
        loop {
            let name = format!("t{task}-{}", dice.below(7));
            let deletes = dice.below(6) == 0;
            let wanted = {
                let mut pages = self.0.lock().unwrap();
                pages.next += 1;
                let wanted = (!deletes).then_some(pages.next);
                pages.objects.entry(name.clone()).or_default().asked = Some(wanted);
                wanted
            };
            let written = match wanted {
                Some(number) => {
                    let object = json!({
                        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                        "data": {"number": number.to_string(), "body": body(number)},
                    });
                    let params = PatchParams::apply("kills").force();
                    maps.patch(&name, &params, &Patch::Apply(object)).await.map(|map| Some(revision(&map)))
                }
                None => match maps.delete(&name, &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
                    deleted => deleted.map(|_| None),
                },
            };
            let Ok(written) = written else { return };
            let mut pages = self.0.lock().unwrap();
            pages.objects.insert(name.clone(), Known { acked: wanted, asked: None });
            if let Some(revision) = written {
                assert!(revision > pages.newest, "{name}: revision {revision} is from an earlier life");
                assert!(pages.revisions.insert(revision), "revision {revision} was given twice");
            }
        }
    }

    /// Waits for the first acknowledgement of this life.
    pub(crate) async fn first_ack(&self, life: u64) {
        let start = std::time::Instant::now();
        while self.acked() == self.0.lock().unwrap().before {
            assert!(start.elapsed() < DEADLINE, "nothing was acknowledged in life {life}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Everything that was acknowledged is there, and nothing that was not asked for.
    pub(crate) async fn verify(&self, client: &Client) {
        let found = maps(client).list(&ListParams::default()).await.unwrap();
        let current: u64 = found.metadata.resource_version.as_ref().unwrap().parse().unwrap();
        let mut pages = self.0.lock().unwrap();
        let last = pages.revisions.last().copied().unwrap_or_default();
        assert!(current >= last, "at {current}, but {last} was acknowledged");
        let mut there: BTreeMap<String, u64> = found.iter().map(|map| (map.name_any(), whole(map))).collect();
        for (name, known) in &mut pages.objects {
            let number = there.remove(name);
            let may_be = number == known.acked || known.asked == Some(number);
            assert!(may_be, "{name} is {number:?}: acknowledged {:?}, asked {:?}", known.acked, known.asked);
            *known = Known { acked: number, asked: None };
        }
        assert!(there.is_empty(), "nobody asked for {there:?}");
        pages.newest = current;
        pages.before = pages.revisions.len();
    }

    pub(crate) fn acked(&self) -> usize {
        self.0.lock().unwrap().revisions.len()
    }

    fn between(&self, after: u64, through: u64) -> Vec<u64> {
        self.0.lock().unwrap().revisions.range(after + 1..=through).copied().collect()
    }

    fn last(&self) -> u64 {
        self.0.lock().unwrap().revisions.last().copied().unwrap_or_default()
    }
}

#[derive(Default)]
struct View {
    /// Where the watch goes on.
    cursor: u64,
    /// Where it began, or began again after it was told that it had missed something.
    start: u64,
    seen: BTreeSet<u64>,
}

/// What a watch has seen, over all lives.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<View>>);

impl Watched {
    /// Watches from where it was until the server is gone; gives whether it was told that it is too late.
    pub(crate) async fn follow(self, client: Client) -> bool {
        let cursor = self.0.lock().unwrap().cursor;
        let Ok(events) = maps(&client).watch(&WatchParams::default(), &cursor.to_string()).await else {
            return false;
        };
        let mut events = events.boxed();
        while let Some(Ok(event)) = events.next().await {
            match event {
                WatchEvent::Added(map) | WatchEvent::Modified(map) | WatchEvent::Deleted(map) => {
                    let mut view = self.0.lock().unwrap();
                    let revision = revision(&map);
                    assert!(revision > view.cursor, "{revision} after {}", view.cursor);
                    whole(&map);
                    view.cursor = revision;
                    view.seen.insert(revision);
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => {
                    assert_eq!(status.code, 410, "{status:?}");
                    return true;
                }
            }
        }
        false
    }

    /// Goes on after a kill: sees all that was acknowledged meanwhile, or is told 410 and lists again.
    pub(crate) async fn catch_up(&self, client: &Client, ledger: &Ledger) {
        let last = ledger.last();
        let is_new = self.0.lock().unwrap().cursor == 0;
        let reached = async {
            while self.0.lock().unwrap().cursor < last {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let expired = is_new
            || tokio::select! {
                expired = self.clone().follow(client.clone()) => expired,
                () = reached => false,
                () = tokio::time::sleep(DEADLINE) => panic!("the watch has not seen revision {last}"),
            };
        self.check(ledger);
        if expired {
            let list = maps(client).list(&ListParams::default()).await.unwrap();
            let now = list.metadata.resource_version.unwrap().parse().unwrap();
            let mut view = self.0.lock().unwrap();
            (view.cursor, view.start) = (now, now);
        } else {
            let cursor = self.0.lock().unwrap().cursor;
            assert!(cursor >= last, "the watch ended at {cursor}, before {last}");
        }
    }

    /// Nothing was left out since the watch began.
    fn check(&self, ledger: &Ledger) {
        let view = self.0.lock().unwrap();
        let due = ledger.between(view.start, view.cursor);
        let missed: Vec<u64> = due.into_iter().filter(|revision| !view.seen.contains(revision)).collect();
        assert!(missed.is_empty(), "the watch has left out {missed:?}");
    }

    /// A watch from the first revision is told that it is too late, once there have been more writes than are
    /// remembered.
    pub(crate) async fn from_the_beginning(client: &Client, ledger: &Ledger) {
        if ledger.acked() > 2 * HISTORY {
            let late = Self::default();
            late.0.lock().unwrap().cursor = 1;
            let expired = tokio::time::timeout(DEADLINE, late.follow(client.clone())).await;
            assert_eq!(expired, Ok(true));
        }
    }

    pub(crate) fn seen(&self) -> usize {
        self.0.lock().unwrap().seen.len()
    }
}
