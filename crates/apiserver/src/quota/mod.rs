//! ResourceQuotas: writes that would exceed one are rejected. Usage is computed from what is stored, not from the status of a
//! quota, which only reports it (`crate::controllers::resource_quota`).
//!
//! Two writes at the same time must not exceed a quota together. A write that a quota limits holds the lock of its namespace
//! until it is committed; other writes take no lock. The store keeps the number of objects for each namespace, so that a check
//! does not list them. Only quotas for what pods and Services use look at these, in their namespace, and each version of an
//! object is read once.

mod limits;
mod usage;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

pub(crate) use limits::{Limits, Source, source};
use usage::{Charge, add, charge};
pub(crate) use usage::{Usage, quantities, quantity, total};

use crate::{
    call::Call,
    plane::Plane,
    quantity::Quantity,
    status::{ApiError, Result},
    store::GroupResource,
};

/// The resource of quotas.
pub(crate) const RESOURCE: &str = "resourcequotas";
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
    async fn lock(&self, namespace: &str) -> Permit {
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
    fn charges(&self, plane: &Plane, resource: &'static str, namespace: &str) -> Vec<Arc<Charge>> {
        let stored_as = GroupResource::new("", resource);
        let listing = plane.store.list(&stored_as, Some(namespace));
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

    /// What is used of the names that a quota limits. Names that this server cannot tell are left out.
    pub(crate) fn used<'a>(
        &self,
        plane: &Plane,
        namespace: &str,
        limits: &Limits,
        names: impl Iterator<Item = &'a str>,
    ) -> Usage {
        let mut sums: HashMap<&'static str, Usage> = HashMap::new();
        let mut sum = |resource: &'static str, name: &str| {
            let sum = sums.entry(resource).or_insert_with(|| {
                let mut sum = Usage::new();
                let charges = self.charges(plane, resource, namespace);
                charges.iter().filter(|it| limits.contains(it)).for_each(|it| add(&mut sum, &it.usage));
                sum
            });
            sum.get(name).copied().unwrap_or(Quantity::ZERO)
        };
        let registry = plane.registry();
        let mut amount = |name: &str| match source(name)? {
            Source::Pods => Some(sum("pods", name)),
            Source::Services => Some(sum("services", name)),
            Source::Claims => Some(Quantity::ZERO),
            Source::Count(counted) => {
                let resource = registry.get(counted.group(), counted.resource());
                let resource = resource.filter(|it| it.namespaced && it.virtual_kind.is_none())?;
                let count =
                    if limits.is_scoped() { 0 } else { plane.store.count(&resource.stored_as, namespace) };
                Some(Quantity::count(count))
            }
        };
        names.filter_map(|name| Some((name.to_owned(), amount(name)?))).collect()
    }
}

/// Rejects a write that exceeds a quota of its namespace. The permit is to be kept until the write is committed.
pub(crate) async fn admit(call: &Call, object: &Value, old: Option<&Value>) -> Result<Option<Permit>> {
    let resource = &call.resource.name;
    let changes = resource.group().is_empty() && matches!(resource.resource(), "pods" | "services");
    if !call.resource.namespaced || call.is_exempt || old.is_some() && (!changes || !call.side.is_main()) {
        return Ok(None);
    }
    let quotas = call.plane.store.list(&GroupResource::new("", RESOURCE), Some(&call.namespace)).items;
    if quotas.is_empty() {
        return Ok(None);
    }
    let forbidden = |detail: &str| ApiError::forbidden(resource, crate::object::name(object), detail);
    let (now, before) = (charge(resource, object), old.map(|old| charge(resource, old)));
    let mut limiting = Vec::new();
    for quota in &quotas {
        let limits = Limits::of(&quota.value);
        if let Some(missing) = limits.missing(&now).filter(|_| old.is_none()) {
            return Err(forbidden(&missing));
        }
        let requested = limits.requested(&now, before.as_ref());
        if !requested.is_empty() {
            limiting.push((limits, requested));
        }
    }
    if limiting.is_empty() {
        return Ok(None);
    }
    let permit = call.plane.quotas.lock(&call.namespace).await;
    for (limits, requested) in &limiting {
        let names = requested.keys().map(String::as_str);
        let used = call.plane.quotas.used(&call.plane, &call.namespace, limits, names);
        if let Some(exceeded) = limits.exceeded(requested, &used) {
            return Err(forbidden(&exceeded));
        }
    }
    Ok(Some(permit))
}
