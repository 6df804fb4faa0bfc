//! Clients that contend for few objects, and the responses that each received.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};

use super::checker::{self, Call, Deed};
use crate::clients::Dice;

/// Few, so that clients contend for them.
const OBJECTS: u64 = 3;
const NUMBER: &str = "number";

/// An answer with a revision: of a write, or of a list.
struct Revised {
    /// The newest revision that any client had received when it was called.
    known: u64,
    revision: u64,
    is_write: bool,
}

/// A list as it was answered.
struct Listed {
    revision: u64,
    /// Number and revision of each object.
    objects: BTreeMap<String, (u64, u64)>,
}

#[derive(Default)]
struct Responses {
    calls: BTreeMap<String, Vec<Call>>,
    revised: Vec<Revised>,
    lists: Vec<Listed>,
    /// Acknowledged writes that leave an object: its name and number, by revision.
    written: BTreeMap<u64, (String, u64)>,
}

/// The responses that all clients received, over all lives of the server.
#[derive(Clone, Default)]
pub(super) struct History {
    responses: Arc<Mutex<Responses>>,
    moment: Arc<AtomicU64>,
    number: Arc<AtomicU64>,
    /// The newest revision that any client has received.
    newest: Arc<AtomicU64>,
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn revision(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

fn number(map: &ConfigMap) -> u64 {
    map.data.as_ref().unwrap()[NUMBER].parse().unwrap()
}

/// Whether the server has refused the call. `None` if there is no answer of the server: the call may have happened.
fn is_refused(error: &kube::Error) -> Option<bool> {
    match error {
        kube::Error::Api(status) if [404, 409].contains(&status.code) => Some(true),
        kube::Error::Api(status) => panic!("unexpected response: {status:?}"),
        _ => None,
    }
}

impl History {
    /// Reads and writes until the server is gone.
    pub(super) async fn contend(self, client: Client, seed: u64) {
        let (mut dice, maps) = (Dice(seed), maps(&client));
        let mut remembered: BTreeMap<String, ConfigMap> = BTreeMap::new();
        loop {
            let name = format!("object-{}", dice.below(OBJECTS));
            // Sometimes by what it knew before, which others may have changed since.
            let known = match remembered.get(&name) {
                Some(known) if dice.below(3) == 0 => Some(known.clone()),
                _ => match self.read(&maps, &name).await {
                    Some(found) => found,
                    None => return,
                },
            };
            let after = match known {
                None => self.create(&maps, &name).await,
                Some(known) if dice.below(5) == 0 => self.delete(&maps, &known).await,
                Some(known) => self.replace(&maps, known).await,
            };
            match after {
                None => return,
                Some(Some(map)) => _ = remembered.insert(name, map),
                Some(None) => {}
            }
        }
    }

    /// Lists until the server is gone.
    pub(super) async fn list(self, client: Client) {
        loop {
            let known = self.newest.load(Ordering::SeqCst);
            let Ok(list) = maps(&client).list(&ListParams::default()).await else { return };
            let revision = list.metadata.resource_version.as_ref().unwrap().parse().unwrap();
            let objects =
                list.iter().map(|map| (map.name_any(), (number(map), self::revision(map)))).collect();
            {
                let mut responses = self.responses.lock().unwrap();
                responses.revised.push(Revised { known, revision, is_write: false });
                responses.lists.push(Listed { revision, objects });
            }
            tokio::task::yield_now().await;
        }
    }

    async fn read(&self, maps: &Api<ConfigMap>, name: &str) -> Option<Option<ConfigMap>> {
        let called = self.now();
        let found = maps.get_opt(name).await.ok();
        let deed = Deed::Read(found.as_ref().and_then(|found| found.as_ref().map(number)));
        self.note(name, called, found.is_some(), deed);
        found
    }

    async fn create(&self, maps: &Api<ConfigMap>, name: &str) -> Option<Option<ConfigMap>> {
        let to = self.number.fetch_add(1, Ordering::SeqCst) + 1;
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.data = Some(BTreeMap::from([(NUMBER.to_owned(), to.to_string())]));
        let (called, known) = (self.now(), self.newest.load(Ordering::SeqCst));
        let made = maps.create(&PostParams::default(), &map).await;
        self.wrote(name, (called, known), made, |is_done| Deed::Create { to, is_done })
    }

    async fn replace(&self, maps: &Api<ConfigMap>, mut map: ConfigMap) -> Option<Option<ConfigMap>> {
        let (name, from) = (map.name_any(), number(&map));
        let to = self.number.fetch_add(1, Ordering::SeqCst) + 1;
        map.data = Some(BTreeMap::from([(NUMBER.to_owned(), to.to_string())]));
        let (called, known) = (self.now(), self.newest.load(Ordering::SeqCst));
        let replaced = maps.replace(&name, &PostParams::default(), &map).await;
        self.wrote(&name, (called, known), replaced, |is_done| Deed::Replace { from, to, is_done })
    }

    async fn delete(&self, maps: &Api<ConfigMap>, map: &ConfigMap) -> Option<Option<ConfigMap>> {
        let (name, from) = (map.name_any(), number(map));
        let preconditions = Preconditions { resource_version: map.resource_version(), uid: map.uid() };
        let options = DeleteParams::default().preconditions(preconditions);
        let called = self.now();
        let deleted = maps.delete(&name, &options).await;
        let is_done = match &deleted {
            Ok(_) => Some(true),
            Err(error) => is_refused(error).map(|is_refused| !is_refused),
        };
        let deed = Deed::Delete { from, is_done: is_done.unwrap_or_default() };
        self.note(&name, called, is_done.is_some(), deed);
        is_done.map(|_| None)
    }

    fn wrote(
        &self,
        name: &str,
        (called, known): (u64, u64),
        answer: Result<ConfigMap, kube::Error>,
        deed: impl Fn(bool) -> Deed,
    ) -> Option<Option<ConfigMap>> {
        match answer {
            Ok(map) => {
                self.newest.fetch_max(revision(&map), Ordering::SeqCst);
                self.note(name, called, true, deed(true));
                let mut responses = self.responses.lock().unwrap();
                responses.revised.push(Revised { known, revision: revision(&map), is_write: true });
                let before = responses.written.insert(revision(&map), (name.to_owned(), number(&map)));
                assert_eq!(before, None, "revision {} was given twice", revision(&map));
                drop(responses);
                Some(Some(map))
            }
            Err(error) => {
                let is_answered = is_refused(&error).is_some();
                self.note(name, called, is_answered, deed(false));
                is_answered.then_some(None)
            }
        }
    }

    fn now(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn note(&self, name: &str, called: u64, is_answered: bool, deed: Deed) {
        let returned = is_answered.then(|| self.now());
        let mut responses = self.responses.lock().unwrap();
        responses.calls.entry(name.to_owned()).or_default().push(Call { called, returned, deed });
    }

    pub(super) fn response_count(&self) -> usize {
        let responses = self.responses.lock().unwrap();
        responses.calls.values().flatten().filter(|call| call.returned.is_some()).count()
    }

    pub(super) fn list_count(&self) -> usize {
        self.responses.lock().unwrap().lists.len()
    }

    /// Checks all responses.
    pub(super) fn check(&self) {
        let responses = self.responses.lock().unwrap();
        for (name, calls) in &responses.calls {
            if let Err(error) = checker::check(calls) {
                panic!("{name} has no order: {error}");
            }
        }
        for revised in &responses.revised {
            let Revised { known, revision, is_write } = revised;
            assert!(
                revision > known || (!is_write && revision == known),
                "{revision} was given after {known} had been told"
            );
        }
        responses.lists.iter().for_each(|list| responses.check_list(list));
    }
}

impl Responses {
    /// A list is the state at its revision: no object is from later, and none has an acknowledged version in between.
    fn check_list(&self, list: &Listed) {
        for (name, (number, revision)) in &list.objects {
            assert!(*revision <= list.revision, "{name} at {revision} in a list at {}", list.revision);
            let mut between = self.written.range((Excluded(*revision), Included(list.revision)));
            let newer = between.find(|(_, (of, _))| of == name);
            assert_eq!(newer, None, "{name} is {number} of {revision} in a list at {}", list.revision);
        }
        for name in self.calls.keys().filter(|name| !list.objects.contains_key(*name)) {
            let mut before = self.written.range(..=list.revision).rev();
            let Some((at, (_, last))) = before.find(|(_, (of, _))| of == name) else { continue };
            // Unanswered calls may have replaced it before it was deleted.
            let may_be_gone = self.calls[name].iter().any(|call| match call.deed {
                Deed::Delete { from, is_done } => from >= *last && (is_done || call.returned.is_none()),
                _ => false,
            });
            assert!(may_be_gone, "{name}, {last} of {at}, is not in a list at {}", list.revision);
        }
    }
}
