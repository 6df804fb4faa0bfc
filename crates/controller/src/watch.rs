//! Objects of one kind that wake the reconciler of another.

use futures::{Stream, StreamExt as _};
use kube::Resource;
use kube::api::Api;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use serde::de::DeserializeOwned;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

use crate::error::{chain, forbidden};

/// Every object in `api` that is new, gone, or different in what `facts` looks at. What others do not care about,
/// such as a status that changes every second, wakes nobody.
pub fn changed<K, F>(
    api: Api<K>,
    config: watcher::Config,
    facts: impl Fn(&K) -> F + Send + 'static,
) -> impl Stream<Item = K> + Send + 'static
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send,
    F: PartialEq + Send + 'static,
{
    let mut known = Known::new();
    watch(api, config).default_backoff().filter_map(move |event| {
        let news = match event {
            Ok(Event::Apply(object)) => known.is_news(&object, facts(&object)).then_some(object),
            Ok(Event::InitApply(object)) => {
                known.listed.insert(ObjectRef::from_obj(&object));
                known.is_news(&object, facts(&object)).then_some(object)
            }
            Ok(Event::Delete(object)) => {
                known.facts.remove(&ObjectRef::from_obj(&object));
                Some(object)
            }
            Ok(Event::Init) => {
                known.listed.clear();
                None
            }
            Ok(Event::InitDone) => {
                known.complaint = None;
                known.forget_unlisted();
                None
            }
            Err(error) => {
                // Said once, not with every attempt: it lasts until somebody gives a right, or for good.
                let told = told(&error);
                if known.complaint.as_ref() != Some(&told) {
                    tracing::warn!(error = told, "watch failed; trying again");
                    known.complaint = Some(told);
                }
                None
            }
        };
        std::future::ready(news)
    })
}

struct Known<K: Resource, F> {
    facts: HashMap<ObjectRef<K>, F>,
    /// What the list that is under way has brought so far.
    listed: HashSet<ObjectRef<K>>,
    /// What was last said about a watch that fails.
    complaint: Option<String>,
}

fn told(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status)
            if status.code == 403 =>
        {
            forbidden(&status.message)
        }
        other => chain(other),
    }
}

impl<K, F: PartialEq> Known<K, F>
where
    K: Resource,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    fn new() -> Self {
        Self { facts: HashMap::new(), listed: HashSet::new(), complaint: None }
    }

    /// Drops what went while nobody watched.
    fn forget_unlisted(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        self.facts.retain(|reference, _| listed.contains(reference));
    }

    fn is_news(&mut self, object: &K, facts: F) -> bool {
        let reference = ObjectRef::from_obj(object);
        match self.facts.get(&reference) {
            Some(before) if *before == facts => false,
            _ => {
                self.facts.insert(reference, facts);
                true
            }
        }
    }
}

/// A reference to the namesake of `name` in a namespace.
pub fn reference<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> ObjectRef<K> {
    ObjectRef::new(name).within(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    #[test]
    fn the_same_facts_are_no_news() {
        let object = |name: &str| ConfigMap {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
            ..Default::default()
        };
        let mut known = Known::new();
        assert!(known.is_news(&object("a"), 1));
        assert!(!known.is_news(&object("a"), 1));
        assert!(known.is_news(&object("a"), 2));
        assert!(known.is_news(&object("b"), 2));
        known.listed.insert(ObjectRef::from_obj(&object("a")));
        known.forget_unlisted();
        assert!(!known.is_news(&object("a"), 2));
        assert!(known.is_news(&object("b"), 2), "it went and came back while nobody watched");
    }
}
