//! ResourceQuotas: what they limit and what is used. `crate::quota_admission` rejects writes that would exceed one.
//! Usage is computed from what is stored, not from the status of a quota, which only reports it
//! (`crate::controllers::resource_quota`).
//!
//! Two writes at the same time must not exceed a quota together. A write that a quota limits holds the lock of its namespace
//! until it is committed; other writes take no lock. The store keeps the number of objects for each namespace, so that a check
//! does not list them. Only quotas for what pods and Services use look at these, in their namespace, and each version of an
//! object is read once.

mod limits;
mod names;
mod usage;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

pub(crate) use limits::Limits;
pub(crate) use names::{Source, source};
use usage::{Charge, add};
pub(crate) use usage::{Usage, charge, total};

use crate::{
    quantity::Quantity,
    store::{GroupResource, Store},
};

/// Locks that are kept for namespaces in which nothing is written now.
const KEPT_LOCKS: usize = 1024;

/// Charges of the objects of one resource in one namespace: by name, each with the revision that it was computed from.
type Charges = HashMap<String, (u64, Arc<Charge>)>;

/// The lock of a namespace, until a write is committed.
pub(crate) type Permit = OwnedMutexGuard<()>;

/// What the server keeps in order to enforce quotas.
#[derive(Default)]
pub(crate) struct Quotas {
    locks: Mutex<HashMap<String, Arc<AsyncMutex<()>>>>,
    charges: Mutex<HashMap<(&'static str, String), Charges>>,
}

impl Quotas {
    pub(crate) async fn lock(&self, namespace: &str) -> Permit {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            if locks.len() > KEPT_LOCKS {
                locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            }
            Arc::clone(locks.entry(namespace.to_owned()).or_default())
        };
        lock.lock_owned().await
    }

    /// Forgets what is known of objects in a namespace that has no quota any more.
    pub(crate) fn forget(&self, namespace: &str) {
        let mut charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.retain(|(_, known), _| known != namespace);
    }

    /// The charges of all objects of a resource in a namespace.
    fn charges(&self, store: &Store, resource: &'static str, namespace: &str) -> Vec<Arc<Charge>> {
        let stored_as = GroupResource::new("", resource);
        let listing = store.list(&stored_as, Some(namespace));
        let mut charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = charges.remove(&(resource, namespace.to_owned())).unwrap_or_default();
        let current: Charges = listing
            .items
            .iter()
            .map(|stored| {
                let kept =
                    known.remove(&stored.key.name).filter(|(revision, _)| *revision == stored.revision);
                let fresh = || (stored.revision, Arc::new(charge(&stored_as, &stored.value.once())));
                (stored.key.name.clone(), kept.unwrap_or_else(fresh))
            })
            .collect();
        let found = current.values().map(|(_, charge)| Arc::clone(charge)).collect();
        if !current.is_empty() {
            charges.insert((resource, namespace.to_owned()), current);
        }
        found
    }

    /// What is used of the names that a quota limits. Names that this server cannot tell are left out. `stored_as` says where
    /// objects of a resource are, if they can be counted.
    pub(crate) fn used<'a>(
        &self,
        store: &Store,
        stored_as: impl Fn(&GroupResource) -> Option<GroupResource>,
        namespace: &str,
        limits: &Limits,
        names: impl Iterator<Item = &'a str>,
    ) -> Usage {
        let mut sums: HashMap<&'static str, Usage> = HashMap::new();
        let mut sum = |resource: &'static str, name: &str| {
            let sum = sums.entry(resource).or_insert_with(|| {
                let mut sum = Usage::new();
                let charges = self.charges(store, resource, namespace);
                charges.iter().filter(|it| limits.contains(it)).for_each(|it| add(&mut sum, &it.usage));
                sum
            });
            sum.get(name).copied().unwrap_or(Quantity::ZERO)
        };
        let mut amount = |name: &str| match source(name)? {
            Source::Pods => Some(sum("pods", name)),
            Source::Services => Some(sum("services", name)),
            Source::Claims => Some(Quantity::ZERO),
            Source::Count(counted) => {
                let stored_as = stored_as(&counted)?;
                let count = if limits.is_scoped() { 0 } else { store.count(&stored_as, namespace) };
                Some(Quantity::count(count))
            }
        };
        names.filter_map(|name| Some((name.to_owned(), amount(name)?))).collect()
    }
}
