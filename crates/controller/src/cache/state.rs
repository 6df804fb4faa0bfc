//! The cached objects of one kind, with their indexes. Pure.

use capstan_api::meta::labels::CLUSTER_NAME;
use kube::ResourceExt;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// Namespace and name of an object. The namespace of a cluster-scoped object is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of a namespace and a name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The key of an object.
    pub fn of(object: &impl ResourceExt) -> Self {
        Self { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.is_empty() {
            true => f.write_str(&self.name),
            false => write!(f, "{}/{}", self.namespace, self.name),
        }
    }
}

/// All objects of one kind.
#[derive(Debug)]
pub(super) struct State<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// The newest resource version that the watch has delivered.
    seen: u64,
    /// Objects that this process has written and the watch has not delivered yet, with their resource versions.
    ahead: HashMap<Key, u64>,
    /// How many lists were completed.
    lists: u64,
    /// Objects by namespace and Cluster.
    of_cluster: Index<(String, String)>,
    /// Objects by the UID of each owner.
    of_owner: Index<String>,
}

/// An index of objects by a value that is in the object. Values without objects are removed.
type Index<T> = HashMap<T, BTreeSet<Key>>;

fn index<T: Eq + Hash>(index: &mut Index<T>, entries: impl IntoIterator<Item = T>, key: &Key) {
    for entry in entries {
        index.entry(entry).or_default().insert(key.clone());
    }
}

fn unindex<T: Eq + Hash>(index: &mut Index<T>, entries: impl IntoIterator<Item = T>, key: &Key) {
    for entry in entries {
        if let Entry::Occupied(mut keys) = index.entry(entry) {
            keys.get_mut().remove(key);
            if keys.get().is_empty() {
                keys.remove();
            }
        }
    }
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            seen: 0,
            ahead: HashMap::new(),
            lists: 0,
            of_cluster: HashMap::new(),
            of_owner: HashMap::new(),
        }
    }
}

fn cluster_of(object: &impl ResourceExt) -> Option<(String, String)> {
    Some((object.namespace().unwrap_or_default(), object.labels().get(CLUSTER_NAME)?.clone()))
}

fn owners_of(object: &impl ResourceExt) -> impl Iterator<Item = String> {
    object.owner_references().iter().map(|owner| owner.uid.clone())
}

impl<K> State<K> {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.objects.keys().cloned().collect()
    }

    pub(super) fn count(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn all(&self) -> Vec<Arc<K>> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = Key::new(namespace, "");
        let in_namespace = self.objects.range(from..).take_while(|(key, _)| key.namespace == namespace);
        in_namespace.map(|(_, object)| Arc::clone(object)).collect()
    }

    pub(super) fn of_cluster(&self, namespace: &str, cluster: &str) -> Vec<Arc<K>> {
        let keys = self.of_cluster.get(&(namespace.to_owned(), cluster.to_owned()));
        keys.into_iter().flatten().filter_map(|key| self.get(key)).collect()
    }

    pub(super) fn of_owner(&self, uid: &str) -> Vec<Arc<K>> {
        let keys = self.of_owner.get(uid);
        keys.into_iter().flatten().filter_map(|key| self.get(key)).collect()
    }
}

/// Resource versions are numbers that grow over all kinds. A version that is not a number counts as the oldest.
fn version(object: &impl ResourceExt) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

impl<K: ResourceExt> State<K> {
    /// How many lists were completed.
    pub(super) fn lists(&self) -> u64 {
        self.lists
    }

    /// The watch delivers an object. Returns its key if it has changed.
    pub(super) fn bring(&mut self, object: Arc<K>) -> Option<Key> {
        if self.is_behind(object.as_ref()) { None } else { self.put(object) }
    }

    /// The watch delivers a deletion. Returns the key if the object was there.
    pub(super) fn gone(&mut self, object: &K) -> Option<Key> {
        if self.is_behind(object) { None } else { self.remove(&Key::of(object)) }
    }

    /// Whether the watch has not delivered the last write of this process yet.
    fn is_behind(&mut self, object: &K) -> bool {
        let (key, version) = (Key::of(object), version(object));
        self.seen = self.seen.max(version);
        if self.ahead.get(&key).is_some_and(|written| version < *written) {
            return true;
        }
        self.ahead.remove(&key);
        false
    }

    /// Takes in an object that this process has written. Does nothing if the watch is ahead of it, or if another list is complete
    /// since `lists`: then the object may have changed again, or be deleted. Returns the key if the object has changed.
    pub(super) fn absorb(&mut self, object: Arc<K>, lists: u64) -> Option<Key> {
        let (key, written) = (Key::of(object.as_ref()), version(object.as_ref()));
        let known = self.objects.get(&key).map_or(0, |known| version(known.as_ref()));
        // The write that removes the last finalizer deletes the object.
        let is_gone = object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty();
        if lists == 0 || lists != self.lists || written <= self.seen || written <= known || is_gone {
            return None;
        }
        self.ahead.insert(key, written);
        self.put(object)
    }

    /// Inserts an object. Returns its key if it has changed.
    fn put(&mut self, object: Arc<K>) -> Option<Key> {
        let key = Key::of(object.as_ref());
        if let Some(before) = self.objects.get(&key) {
            let is_same = object.resource_version().is_some()
                && before.resource_version() == object.resource_version()
                && before.uid() == object.uid();
            if is_same {
                return None;
            }
        }
        self.remove(&key);
        index(&mut self.of_cluster, cluster_of(object.as_ref()), &key);
        index(&mut self.of_owner, owners_of(object.as_ref()), &key);
        self.objects.insert(key.clone(), object);
        Some(key)
    }

    /// Removes an object. Returns its key if it was there.
    fn remove(&mut self, key: &Key) -> Option<Key> {
        let object = self.objects.remove(key)?;
        unindex(&mut self.of_cluster, cluster_of(object.as_ref()), key);
        unindex(&mut self.of_owner, owners_of(object.as_ref()), key);
        Some(key.clone())
    }

    /// A new list is complete. Returns the keys of all objects that differ, including deleted ones.
    pub(super) fn replace(&mut self, listed: Vec<Arc<K>>) -> Vec<Key> {
        self.lists += 1;
        self.ahead.clear();
        self.seen = listed.iter().map(|object| version(object.as_ref())).max().unwrap_or_default();
        let there: BTreeSet<Key> = listed.iter().map(|object| Key::of(object.as_ref())).collect();
        let gone: Vec<Key> = self.objects.keys().filter(|key| !there.contains(key)).cloned().collect();
        let gone: Vec<Key> = gone.iter().filter_map(|key| self.remove(key)).collect();
        let changed: Vec<Key> = listed.into_iter().filter_map(|object| self.put(object)).collect();
        gone.into_iter().chain(changed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use serde_json::json;

    fn object(name: &str, version: u32, cluster: Option<&str>) -> Arc<ConfigMap> {
        let labels = cluster.map(|cluster| json!({CLUSTER_NAME: cluster}));
        let object = json!({"metadata": {"namespace": "n", "name": name, "uid": name, "labels": labels,
            "resourceVersion": version.to_string()}});
        Arc::new(serde_json::from_value(object).expect("an object"))
    }

    fn names(objects: &[Arc<ConfigMap>]) -> Vec<String> {
        objects.iter().map(|object| object.name_any()).collect()
    }

    #[test]
    fn a_new_list_finds_what_was_deleted_while_the_watch_was_down() {
        let mut state = State::default();
        let names_of = |keys: Vec<Key>| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        let first = vec![object("a", 1, None), object("b", 1, None), object("c", 1, None)];
        assert_eq!(names_of(state.replace(first)), ["n/a", "n/b", "n/c"]);
        let second = vec![object("b", 2, None), object("c", 1, None), object("d", 3, None)];
        assert_eq!(names_of(state.replace(second)), ["n/a", "n/b", "n/d"]);
        assert_eq!(names(&state.all()), ["b", "c", "d"]);
        assert_eq!(state.bring(object("c", 1, None)), None, "the same version is no news");
        assert_eq!(state.gone(&object("a", 9, None)), None);
    }

    #[test]
    fn own_writes_are_in_the_cache_before_the_watch_delivers_them() {
        let mut state = State::default();
        assert_eq!(state.absorb(object("a", 1, None), 0), None, "nothing is known before the first list");
        state.replace(vec![object("a", 5, None)]);
        assert!(state.absorb(object("a", 9, None), 1).is_some());
        let now = |state: &State<ConfigMap>| {
            state.get(&Key::new("n", "a")).and_then(|object| object.resource_version()).unwrap_or_default()
        };
        // What the watch was about to bring is older.
        assert_eq!(state.bring(object("a", 7, None)), None);
        assert_eq!(state.gone(&object("a", 8, None)), None, "a former life of the same name");
        assert_eq!(now(&state), "9");
        assert_eq!(state.bring(object("a", 9, None)), None, "the same is no news");
        assert!(state.bring(object("a", 10, None)).is_some());
        assert!(state.absorb(object("a", 12, None), 1).is_some());
        assert!(state.gone(&object("a", 13, None)).is_some());
        // An answer that comes after the watch has told of the end does not bring the object back.
        assert_eq!(state.absorb(object("a", 11, None), 1), None);
        // Nor does one from before a list.
        state.replace(vec![]);
        assert_eq!(state.absorb(object("a", 14, None), 1), None);
        assert_eq!(now(&state), "");
    }

    #[test]
    fn an_object_that_loses_its_last_finalizer_is_not_kept() {
        let mut state = State::default();
        state.replace(vec![object("a", 1, None)]);
        let mut ending = object("a", 2, None).as_ref().clone();
        ending.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(state.absorb(Arc::new(ending.clone()), 1), None);
        ending.metadata.finalizers = Some(vec!["kept".to_owned()]);
        assert!(state.absorb(Arc::new(ending), 1).is_some());
    }

    #[test]
    fn objects_are_found_by_their_cluster_as_long_as_they_say_so() {
        let mut state = State::default();
        state.replace(vec![object("a", 1, Some("x")), object("b", 1, Some("y")), object("c", 1, None)]);
        assert_eq!(names(&state.of_cluster("n", "x")), ["a"]);
        state.bring(object("a", 2, Some("y")));
        assert_eq!(names(&state.of_cluster("n", "x")), Vec::<String>::new());
        assert_eq!(names(&state.of_cluster("n", "y")), ["a", "b"]);
        state.gone(&object("b", 3, None));
        assert_eq!(names(&state.of_cluster("n", "y")), ["a"]);
        assert_eq!(state.of_cluster.len(), 1, "what is empty is forgotten");
        assert_eq!(names(&state.in_namespace("n")), ["a", "c"]);
        assert!(state.in_namespace("m").is_empty());
    }

    #[test]
    fn objects_are_found_by_each_of_their_owners() {
        let owned = |name: &str, version: u32, owners: &[&str]| {
            let mut object = object(name, version, None).as_ref().clone();
            let owner = |uid: &&str| OwnerReference { uid: (*uid).to_owned(), ..OwnerReference::default() };
            object.metadata.owner_references = Some(owners.iter().map(owner).collect());
            Arc::new(object)
        };
        let mut state = State::default();
        state.replace(vec![
            owned("a", 1, &["set"]),
            owned("b", 1, &["set", "cluster"]),
            object("c", 1, None),
        ]);
        assert_eq!(names(&state.of_owner("set")), ["a", "b"]);
        assert_eq!(names(&state.of_owner("cluster")), ["b"]);
        state.bring(owned("a", 2, &["machine"]));
        assert_eq!(names(&state.of_owner("set")), ["b"]);
        assert_eq!(names(&state.of_owner("machine")), ["a"]);
        state.gone(&owned("b", 3, &[]));
        assert!(state.of_owner("set").is_empty());
        assert_eq!(state.of_owner.len(), 1, "what is empty is forgotten");
    }
}
