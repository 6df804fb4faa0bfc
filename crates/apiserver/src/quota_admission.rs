//! Writes that would exceed a ResourceQuota are rejected.

use serde_json::Value;

use crate::{
    call::Call,
    plane::Plane,
    quota::{Limits, Permit, Usage, charge},
    registry::kinds::RESOURCE_QUOTAS,
    status::{ApiError, Result},
    store::GroupResource,
};

/// What is used of these names of a quota.
pub(crate) fn used<'a>(
    plane: &Plane,
    namespace: &str,
    limits: &Limits,
    names: impl Iterator<Item = &'a str>,
) -> Usage {
    let registry = plane.registry();
    let stored_as = |counted: &GroupResource| {
        let resource = registry.get(counted.group(), counted.resource());
        let resource = resource.filter(|it| it.namespaced && it.virtual_kind.is_none())?;
        Some(resource.stored_as.clone())
    };
    plane.quotas.used(&plane.store, stored_as, namespace, limits, names)
}

/// Rejects a write that exceeds a quota of its namespace. The permit is to be kept until the write is committed.
pub(crate) async fn admit(call: &Call, object: &Value, old: Option<&Value>) -> Result<Option<Permit>> {
    let resource = &call.resource.name;
    let changes = resource.group().is_empty() && matches!(resource.resource(), "pods" | "services");
    if !call.resource.namespaced || call.is_exempt || old.is_some() && (!changes || !call.side.is_main()) {
        return Ok(None);
    }
    let quotas = call.plane.store.list(&GroupResource::new("", RESOURCE_QUOTAS), Some(&call.namespace)).items;
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
        let in_use = used(&call.plane, &call.namespace, limits, names);
        if let Some(exceeded) = limits.exceeded(requested, &in_use) {
            return Err(forbidden(&exceeded));
        }
    }
    Ok(Some(permit))
}
