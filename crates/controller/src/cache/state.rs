//! What is known of one kind, with the ways to find it. Pure.

use capstan_api::meta::labels::CLUSTER_NAME;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Namespace and name of an object. Objects without a namespace have an empty one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Where it is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
}

impl Key {
    /// The object of a name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Of an object.
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
    /// Names of objects by namespace and Cluster.
    of_cluster: HashMap<(String, String), BTreeSet<String>>,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), of_cluster: HashMap::new() }
    }
}

fn cluster_of(object: &impl ResourceExt) -> Option<(String, String)> {
    Some((object.namespace().unwrap_or_default(), object.labels().get(CLUSTER_NAME)?.clone()))
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
        let here = self.objects.range(from..).take_while(|(key, _)| key.namespace == namespace);
        here.map(|(_, object)| Arc::clone(object)).collect()
    }

    pub(super) fn of_cluster(&self, namespace: &str, cluster: &str) -> Vec<Arc<K>> {
        let names = self.of_cluster.get(&(namespace.to_owned(), cluster.to_owned()));
        let names = names.into_iter().flatten();
        names.filter_map(|name| self.get(&Key::new(namespace, name))).collect()
    }
}

impl<K: ResourceExt> State<K> {
    /// Takes an object in. Gives its key if that is news.
    pub(super) fn put(&mut self, object: Arc<K>) -> Option<Key> {
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
        if let Some(cluster) = cluster_of(object.as_ref()) {
            self.of_cluster.entry(cluster).or_default().insert(key.name.clone());
        }
        self.objects.insert(key.clone(), object);
        Some(key)
    }

    /// Takes an object out. Gives its key if it was there.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Key> {
        let object = self.objects.remove(key)?;
        if let Some(cluster) = cluster_of(object.as_ref())
            && let Some(names) = self.of_cluster.get_mut(&cluster)
        {
            names.remove(&key.name);
            if names.is_empty() {
                self.of_cluster.remove(&cluster);
            }
        }
        Some(key.clone())
    }

    /// A new list is complete. Gives the keys of all that differ, of those that are gone, too.
    pub(super) fn replace(&mut self, listed: Vec<Arc<K>>) -> Vec<Key> {
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
    fn a_new_list_tells_what_went_while_nobody_watched() {
        let mut state = State::default();
        let told = |keys: Vec<Key>| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        let first = vec![object("a", 1, None), object("b", 1, None), object("c", 1, None)];
        assert_eq!(told(state.replace(first)), ["n/a", "n/b", "n/c"]);
        let second = vec![object("b", 2, None), object("c", 1, None), object("d", 3, None)];
        assert_eq!(told(state.replace(second)), ["n/a", "n/b", "n/d"]);
        assert_eq!(names(&state.all()), ["b", "c", "d"]);
        assert_eq!(state.put(object("c", 1, None)), None, "the same version is no news");
        assert_eq!(state.remove(&Key::new("n", "a")), None);
    }

    #[test]
    fn objects_are_found_by_their_cluster_as_long_as_they_say_so() {
        let mut state = State::default();
        state.replace(vec![object("a", 1, Some("x")), object("b", 1, Some("y")), object("c", 1, None)]);
        assert_eq!(names(&state.of_cluster("n", "x")), ["a"]);
        state.put(object("a", 2, Some("y")));
        assert_eq!(names(&state.of_cluster("n", "x")), Vec::<String>::new());
        assert_eq!(names(&state.of_cluster("n", "y")), ["a", "b"]);
        state.remove(&Key::new("n", "b"));
        assert_eq!(names(&state.of_cluster("n", "y")), ["a"]);
        assert_eq!(state.of_cluster.len(), 1, "what is empty is forgotten");
        assert_eq!(names(&state.in_namespace("n")), ["a", "c"]);
        assert!(state.in_namespace("m").is_empty());
    }
}
