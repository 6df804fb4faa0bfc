//! Who is to be woken: objects that a reconciler has met, with what they wait for.
//!
//! A hint and never the truth. It begins empty with the process and fills as every object is reconciled once;
//! whoever is missed is woken by a timer.

use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) struct Roster<K: Resource<DynamicType = ()>, N>(Arc<Mutex<HashMap<ObjectRef<K>, N>>>);

impl<K: Resource<DynamicType = ()>, N> Clone for Roster<K, N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, N> Default for Roster<K, N>
where
    K: Resource<DynamicType = ()>,
{
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, N> Roster<K, N>
where
    K: Resource<DynamicType = ()>,
    ObjectRef<K>: Hash + Eq + Clone,
{
    /// Notes an object.
    pub(crate) fn note(&self, object: &K, note: N) {
        self.lock().insert(ObjectRef::from_obj(object), note);
    }

    /// Forgets an object that is gone.
    pub(crate) fn strike(&self, object: &K) {
        self.lock().remove(&ObjectRef::from_obj(object));
    }

    /// Everybody in a namespace whose note is of that sort.
    pub(crate) fn find(&self, namespace: Option<&str>, matches: impl Fn(&N) -> bool) -> Vec<ObjectRef<K>> {
        let all = self.lock();
        all.iter()
            .filter(|(object, note)| object.namespace.as_deref() == namespace && matches(note))
            .map(|(object, _)| object.clone())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectRef<K>, N>> {
        // Only hints are inside: a panic elsewhere has not broken them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
