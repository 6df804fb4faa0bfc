//! The admission policies that are bound, kept compiled.
//!
//! A write costs no look into the store as long as no policy and no binding changes: the compiled ones are kept, and the
//! store announces changes.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use tokio::sync::watch;

use crate::{
    policy::{Binding, Policy, Program},
    registry::webhook::configuration::GROUP,
    store::{GroupResource, Store, Stored},
};

/// A policy with its bindings; at least one.
pub(crate) struct Bound<P> {
    pub(crate) policy: Arc<Policy<P>>,
    pub(crate) bindings: Vec<Binding>,
}

/// All policies that are bound, by name, kept compiled.
pub(crate) struct Policies<P> {
    changes: [watch::Receiver<u64>; 2],
    current: RwLock<Current<P>>,
}

struct Current<P> {
    /// The revisions of the last changes; nothing before the first look.
    seen: Option<[u64; 2]>,
    bound: Arc<Vec<Bound<P>>>,
}

impl<P: Program> Policies<P> {
    pub(crate) fn new(store: &Store) -> Self {
        let changes =
            [P::POLICIES, P::BINDINGS].map(|name| store.subscribe(Some(&GroupResource::new(GROUP, name))));
        Self { changes, current: RwLock::new(Current { seen: None, bound: Arc::new(Vec::new()) }) }
    }

    /// The policies as they are now.
    pub(crate) fn current(&self, store: &Store) -> Arc<Vec<Bound<P>>> {
        // Before the store is read: a change meanwhile is looked at again the next time.
        let seen = Some([*self.changes[0].borrow(), *self.changes[1].borrow()]);
        {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.seen == seen {
                return Arc::clone(&current.bound);
            }
        }
        // One request compiles; others that come meanwhile wait for it.
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.seen != seen {
            current.bound = Arc::new(bound(store, &current.bound));
            current.seen = seen;
        }
        Arc::clone(&current.bound)
    }
}

/// Reads all policies that are bound. One that has not changed is not compiled again.
fn bound<P: Program>(store: &Store, before: &[Bound<P>]) -> Vec<Bound<P>> {
    let mut bindings: HashMap<String, Vec<Binding>> = HashMap::new();
    for stored in &store.list(&GroupResource::new(GROUP, P::BINDINGS), None).items {
        // What cannot be read was rejected when it was written.
        if let Some(binding) = Binding::of(stored) {
            bindings.entry(binding.policy.clone()).or_default().push(binding);
        }
    }
    let policies = store.list(&GroupResource::new(GROUP, P::POLICIES), None);
    let mut read = |stored: &Arc<Stored>| {
        let bindings = bindings.remove(&stored.key.name)?;
        let head = stored.value.head();
        let known = before.iter().map(|bound| &bound.policy).find(|policy| policy.is_of(&head));
        let policy = known.cloned().or_else(|| Policy::of(stored).map(Arc::new))?;
        Some(Bound { policy, bindings })
    };
    policies.items.iter().filter_map(&mut read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        policy::validating::{BINDINGS, POLICIES, Validations},
        store::{Action, Expect, Key, Storage, Write},
    };

    async fn put(store: &Store, resource: &str, name: &str, value: Value) {
        let key = Key::new(GroupResource::new(GROUP, resource), "", name);
        let expect = store.get(&key).map_or(Expect::Absent, |stored| Expect::Revision(stored.revision));
        store.write(Write { key, expect, action: Action::Put(value), guards: Vec::new() }).await.unwrap();
    }

    #[tokio::test]
    async fn policies_are_compiled_once_and_read_when_they_change() {
        let store = Store::open(&Storage::Memory, 100).unwrap().start(Box::new(|_| {})).unwrap();
        let policies = Policies::<Validations>::new(&store);
        let policy = |generation: i64, expression: &str| {
            json!({
                "metadata": {"name": "p", "uid": "u", "generation": generation},
                "spec": {"matchConstraints": {}, "validations": [{"expression": expression}]},
                "status": {"observedGeneration": generation},
            })
        };
        put(&store, POLICIES, "p", policy(1, "true")).await;
        assert!(policies.current(&store).is_empty(), "it is not bound");
        put(&store, BINDINGS, "b", json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}})).await;
        let first = policies.current(&store);
        assert_eq!(first[0].bindings[0].name, "b");
        put(&store, "others", "o", json!({"metadata": {"name": "o"}})).await;
        assert!(Arc::ptr_eq(&first, &policies.current(&store)), "nothing that matters has changed");
        put(&store, POLICIES, "p", policy(1, "true")).await;
        let second = policies.current(&store);
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&first[0].policy, &second[0].policy));
        put(&store, POLICIES, "p", policy(2, "false && nope")).await;
        let third = policies.current(&store);
        assert!(third[0].policy.program.as_ref().is_err_and(|why| why.contains("nope")));
    }
}
