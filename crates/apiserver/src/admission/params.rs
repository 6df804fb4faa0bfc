//! The parameters of policies: which kind they are of, and which objects a binding uses.

use std::sync::Arc;

use serde_json::Value;

use super::Attempt;
use crate::{
    call::Call,
    object,
    policy::{ParamKind, ParamRef},
    registry::Resource,
    store::{GroupResource, Key},
};

/// What each set of parameters costs besides its expressions. Upstream has a budget for each set; here those of a binding
/// share one, so that a selector for many objects does not make a request endless.
pub(super) const COST: u64 = 1000;

/// The resource of a kind of parameters, and its version.
pub(super) fn resource(call: &Call, kind: &ParamKind) -> Result<(Arc<Resource>, String), String> {
    let ParamKind { api_version, kind } = kind;
    let (group, version) = object::split_api_version(api_version);
    let resource = call
        .registry
        .by_kind(group, kind)
        .filter(|resource| resource.version(version).is_some() && resource.virtual_kind.is_none());
    let resource = resource.ok_or_else(|| {
        let gvk = if group.is_empty() { format!("/{version}") } else { api_version.clone() };
        format!("failed to find resource referenced by paramKind: '{gvk}, Kind={kind}'")
    })?;
    Ok((Arc::clone(resource), version.to_owned()))
}

/// The parameters of a binding, each of which is evaluated; `None` stands for null.
pub(super) async fn of(
    call: &Call,
    attempt: &Attempt<'_>,
    kind: Option<&(Arc<Resource>, String)>,
    wanted: Option<&ParamRef>,
) -> Result<Vec<Option<Box<Value>>>, String> {
    let (Some((resource, version)), Some(wanted)) = (kind, wanted) else { return Ok(vec![None]) };
    let is_namespace = call.resource.name == GroupResource::new("", "namespaces");
    let own = if is_namespace { attempt.name } else { call.namespace.as_str() };
    let namespace = match (resource.namespaced, wanted.namespace.as_str()) {
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "") if own.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            );
        }
        (true, "") => own,
        (true, namespace) => namespace,
    };
    let store = &call.plane.store;
    let stored = match &wanted.selector {
        None => store.get(&resource.key(namespace, &wanted.name)).into_iter().collect(),
        Some(selector) => {
            let listed = store.list(&resource.stored_as, resource.namespaced.then_some(namespace));
            let mut selected = listed.items;
            selected.retain(|stored| selector.matches(&stored.value.head()));
            selected
        }
    };
    if stored.is_empty() && wanted.required {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let key = Key::new(resource.name.clone(), namespace, "");
    let reader = Call::internal(&call.plane, &key, &call.user);
    let reader =
        reader.and_then(|reader| Some(Call { version: Arc::clone(resource.version(version)?), ..reader }));
    let reader = reader.ok_or("the kind of the parameters is no longer served")?;
    let items: Vec<_> = stored.iter().collect();
    let shown = reader.present_all(&items).await.map_err(|error| error.to_string())?;
    Ok(shown.into_iter().map(|shown| Some(Box::new(shown.into_value()))).collect())
}
