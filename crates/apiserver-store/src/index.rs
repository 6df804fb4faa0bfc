//! What is in memory: the current objects and the window of events, both by resource.
//!
//! Pure bookkeeping; the writer calls [`State::publish`] with what it has committed. An older state is the
//! current one with the window's events undone, which is how consistent pages are served.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use tokio::sync::watch;

use super::{Change, Event, GroupResource, Key, Stored};

/// A list and the revision it is true at.
#[derive(Debug)]
pub struct Listing {
    /// In order of namespace and name.
    pub items: Vec<Arc<Stored>>,
    /// The revision.
    pub revision: u64,
}

/// A run of events.
#[derive(Debug)]
pub struct Batch {
    /// In order of revision.
    pub events: Vec<Arc<Event>>,
    /// All events up to this revision are in the batch, or were excluded by the caller.
    pub through: u64,
}

type Name = (String, String);

/// Says under which keys an object is found.
pub type Keys = fn(&Stored) -> Vec<String>;

/// Names of objects by keys that are computed from them.
struct Index {
    keys: Keys,
    names: HashMap<String, BTreeSet<Name>>,
}

impl Index {
    fn add(&mut self, object: &Stored) {
        for key in (self.keys)(object) {
            self.names.entry(key).or_default().insert(name(&object.key));
        }
    }

    fn remove(&mut self, object: &Stored) {
        for key in (self.keys)(object) {
            if let Some(names) = self.names.get_mut(&key) {
                names.remove(&name(&object.key));
                if names.is_empty() {
                    self.names.remove(&key);
                }
            }
        }
    }
}

struct Collection {
    index: Option<Index>,
    /// The revision of the newest of its events that is no longer in the window.
    floor: u64,
    objects: BTreeMap<Name, Arc<Stored>>,
    /// How many there are in each namespace.
    counts: HashMap<String, usize>,
    events: VecDeque<Arc<Event>>,
    published: watch::Sender<u64>,
}

impl Default for Collection {
    fn default() -> Self {
        let (objects, events) = (BTreeMap::new(), VecDeque::new());
        let (index, counts, published) = (None, HashMap::new(), watch::Sender::new(0));
        Self { index, floor: 0, objects, counts, events, published }
    }
}

impl Collection {
    /// Keeps an object; gives the one it replaces.
    fn insert(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        let namespace = object.key.namespace.clone();
        let before = self.objects.insert(name(&object.key), object);
        if before.is_none() {
            *self.counts.entry(namespace).or_default() += 1;
        }
        before
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<Stored>> {
        let before = self.objects.remove(&name(key))?;
        if let Some(count) = self.counts.get_mut(&key.namespace) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key.namespace);
            }
        }
        Some(before)
    }
}

/// All that readers can see.
pub(super) struct State {
    revision: u64,
    /// Events after this revision are in the window.
    floor: u64,
    /// The floor when the store was opened: of the events before it the resource is not known.
    opened_at: u64,
    collections: HashMap<GroupResource, Collection>,
    events: VecDeque<Arc<Event>>,
    /// Of all events together.
    weight: usize,
    published: watch::Sender<u64>,
}

impl State {
    pub(super) fn new(revision: u64, floor: u64, objects: Vec<Arc<Stored>>, events: Vec<Arc<Event>>) -> Self {
        let mut state = Self {
            revision,
            floor,
            opened_at: floor,
            collections: HashMap::new(),
            events: VecDeque::new(),
            weight: 0,
            published: watch::Sender::new(revision),
        };
        for object in objects {
            let collection = state.collections.entry(object.key.resource.clone()).or_default();
            collection.insert(object);
        }
        for event in events {
            let resource = event.object.key.resource.clone();
            state.collections.entry(resource).or_default().events.push_back(Arc::clone(&event));
            state.weight += event.weight();
            state.events.push_back(event);
        }
        state
    }

    /// Makes committed events visible, forgets those up to `floor`, wakes whoever waits for them.
    pub(super) fn publish(&mut self, events: &[Arc<Event>], floor: u64) {
        let mut touched = Vec::new();
        for event in events {
            let key = &event.object.key;
            let collection = self.collections.entry(key.resource.clone()).or_default();
            let before = match event.change {
                Change::Deleted => collection.remove(key),
                Change::Created | Change::Updated => collection.insert(Arc::clone(&event.object)),
            };
            if let Some(index) = &mut collection.index {
                before.iter().for_each(|before| index.remove(before));
                if event.change != Change::Deleted {
                    index.add(&event.object);
                }
            }
            collection.events.push_back(Arc::clone(event));
            self.events.push_back(Arc::clone(event));
            self.weight += event.weight();
            self.revision = event.revision;
            if !touched.contains(&key.resource) {
                touched.push(key.resource.clone());
            }
        }
        while let Some(event) = self.events.pop_front_if(|event| event.revision <= floor) {
            self.weight -= event.weight();
            if let Some(collection) = self.collections.get_mut(&event.object.key.resource) {
                collection.events.pop_front();
                collection.floor = event.revision;
            }
        }
        self.floor = floor;
        for resource in touched {
            if let Some(collection) = self.collections.get(&resource) {
                collection.published.send_replace(self.revision);
            }
        }
        self.published.send_replace(self.revision);
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision of the newest event that is no longer in the window.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn window(&self) -> usize {
        self.events.len()
    }

    /// What the window keeps alive.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// The window, from the oldest.
    pub(super) fn events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.iter()
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        self.collections.get(&key.resource)?.objects.get(&name(key)).cloned()
    }

    pub(super) fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Listing {
        let items = self.collections.get(resource).map_or_else(Vec::new, |collection| {
            range(&collection.objects, namespace).map(|(_, object)| Arc::clone(object)).collect()
        });
        Listing { items, revision: self.revision }
    }

    pub(super) fn count(&self, resource: &GroupResource, namespace: &str) -> usize {
        self.collections.get(resource).and_then(|it| it.counts.get(namespace)).copied().unwrap_or(0)
    }

    /// Keeps an index of a resource from now on.
    pub(super) fn index(&mut self, resource: &GroupResource, keys: Keys) {
        let collection = self.collections.entry(resource.clone()).or_default();
        let mut index = Index { keys, names: HashMap::new() };
        collection.objects.values().for_each(|object| index.add(object));
        collection.index = Some(index);
    }

    /// Objects with one of these keys, in order of namespace and name. All of them, if there is no index.
    pub(super) fn list_by(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        keys: &[String],
    ) -> Vec<Arc<Stored>> {
        let Some(collection) = self.collections.get(resource) else { return Vec::new() };
        let Some(index) = &collection.index else { return self.list(resource, namespace).items };
        let names: BTreeSet<&Name> = keys.iter().filter_map(|key| index.names.get(key)).flatten().collect();
        let here = names.into_iter().filter(|name| namespace.is_none_or(|namespace| name.0 == namespace));
        here.filter_map(|name| collection.objects.get(name).cloned()).collect()
    }

    pub(super) fn list_at(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Option<Listing> {
        if revision >= self.revision {
            return Some(self.list(resource, namespace));
        }
        if revision < self.floor {
            return None;
        }
        let Some(collection) = self.collections.get(resource) else {
            return Some(Listing { items: Vec::new(), revision });
        };
        let mut objects: BTreeMap<&Name, &Arc<Stored>> = range(&collection.objects, namespace).collect();
        let names: Vec<Name> = collection.events.iter().map(|event| name(&event.object.key)).collect();
        for (event, name) in collection.events.iter().zip(&names).rev() {
            if event.revision <= revision {
                break;
            }
            if namespace.is_some_and(|namespace| namespace != name.0) {
                continue;
            }
            match &event.previous {
                Some(previous) => objects.insert(name, previous),
                None => objects.remove(name),
            };
        }
        Some(Listing { items: objects.into_values().map(Arc::clone).collect(), revision })
    }

    pub(super) fn everything(&self) -> Listing {
        let items = self.collections.values().flat_map(|c| c.objects.values().cloned()).collect();
        Listing { items, revision: self.revision }
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<Stored>> {
        self.collections
            .values()
            .flat_map(|collection| range(&collection.objects, Some(namespace)))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// Events of a resource after this revision are in the window. Those of a resource that changes seldom stay complete while
    /// others fill the window, so that its watches need not begin again.
    fn floor_of(&self, resource: Option<&GroupResource>) -> u64 {
        match resource {
            None => self.floor,
            Some(resource) => {
                self.opened_at.max(self.collections.get(resource).map_or(0, |collection| collection.floor))
            }
        }
    }

    pub(super) fn events_after(
        &self,
        resource: Option<&GroupResource>,
        revision: u64,
        limit: usize,
    ) -> Option<Batch> {
        if revision < self.floor_of(resource) {
            return None;
        }
        let events = match resource {
            None => Some(&self.events),
            Some(resource) => self.collections.get(resource).map(|collection| &collection.events),
        };
        let Some(events) = events else {
            return Some(Batch { events: Vec::new(), through: self.revision.max(revision) });
        };
        let start = events.partition_point(|event| event.revision <= revision);
        let batch: Vec<_> = events.range(start..).take(limit).cloned().collect();
        let through = match batch.last() {
            Some(last) if start + batch.len() < events.len() => last.revision,
            _ => self.revision.max(revision),
        };
        Some(Batch { events: batch, through })
    }

    pub(super) fn subscribe(&mut self, resource: &GroupResource) -> watch::Receiver<u64> {
        self.collections.entry(resource.clone()).or_default().published.subscribe()
    }

    pub(super) fn subscribe_all(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }
}

fn name(key: &Key) -> Name {
    (key.namespace.clone(), key.name.clone())
}

fn range<'a>(
    objects: &'a BTreeMap<Name, Arc<Stored>>,
    namespace: Option<&str>,
) -> impl Iterator<Item = (&'a Name, &'a Arc<Stored>)> {
    let namespace = namespace.map(str::to_owned);
    let start = (namespace.clone().unwrap_or_default(), String::new());
    objects.range(start..).take_while(move |(name, _)| namespace.as_ref().is_none_or(|ns| *ns == name.0))
}
