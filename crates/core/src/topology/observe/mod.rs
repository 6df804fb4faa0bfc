//! Reads the class with its templates, and the objects of a Cluster. Reads only. Whatever cannot be read is an error: an
//! object is absent only if the API server says so.

mod templates;
mod workers;

use capstan_api::core::{Cluster, ClusterClass, MachineHealthCheck};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::{Error, Result};
use capstan_topology::metadata::OWNED;
use capstan_topology::state::Current;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Core;

pub(super) use templates::{Templates, contract, templates};
pub(super) use workers::{Deployment, Pool, topology_names};

/// The objects of a Cluster, as they were read.
pub(super) struct Objects {
    pub(super) infrastructure_cluster: Option<DynamicObject>,
    pub(super) control_plane: Option<DynamicObject>,
    pub(super) control_plane_machines: Option<DynamicObject>,
    pub(super) control_plane_check: Option<Arc<MachineHealthCheck>>,
    /// By their name in the topology.
    pub(super) machine_deployments: BTreeMap<String, Deployment>,
    /// By their name in the topology.
    pub(super) machine_pools: BTreeMap<String, Pool>,
    /// The same, as the computation wants them.
    pub(super) current: Current,
}

/// The class of a Cluster.
pub(super) async fn class(core: &Core, cluster: &Cluster) -> Result<Arc<ClusterClass>> {
    let Some(topology) = &cluster.spec.topology else {
        return Err(Error::user(subject(cluster), "has no spec.topology"));
    };
    let (namespace, name) = class_of(cluster, topology);
    let found = core.caches.of::<ClusterClass>().get(&namespace, name).await?;
    found.ok_or_else(|| {
        let field = format!("{} spec.topology.classRef", subject(cluster));
        Error::user(field, format!("failed to retrieve ClusterClass {namespace}/{name}: it does not exist"))
    })
}

/// Namespace and name of the class of a Cluster.
pub(super) fn class_of<'a>(
    cluster: &Cluster,
    topology: &'a capstan_api::core::Topology,
) -> (String, &'a str) {
    let reference = &topology.class_ref;
    let namespace = reference.namespace.clone().or_else(|| cluster.namespace()).unwrap_or_default();
    (namespace, &reference.name)
}

fn subject(cluster: &Cluster) -> String {
    format!("Cluster {}/{}", cluster.namespace().unwrap_or_default(), cluster.name_any())
}

/// All objects of a Cluster.
pub(super) async fn objects(core: &Core, cluster: &Cluster, templates: &Templates) -> Result<Objects> {
    let namespace = cluster.namespace().unwrap_or_default();
    let spec = &cluster.spec;
    let infrastructure_cluster = match &spec.infrastructure_ref {
        Some(reference) => {
            Some(referenced(core, cluster, reference, &templates.infrastructure_cluster).await?)
        }
        None => None,
    };
    let control_plane = match &spec.control_plane_ref {
        Some(reference) => Some(referenced(core, cluster, reference, &templates.control_plane).await?),
        None => None,
    };
    let mut control_plane_machines = None;
    if let (Some(object), Some(template)) = (&control_plane, &templates.control_plane_machines)
        && let Some(reference) = machine_template_of(object)
    {
        let of = format!("{} {namespace}/{}", kind(object), object.name_any());
        control_plane_machines = owned_template(core, &of, &namespace, &reference, Some(template)).await?;
    }
    let control_plane_check = match &control_plane {
        Some(object) => health_check(core, &namespace, &object.name_any()).await?,
        None => None,
    };
    let machine_deployments = workers::machine_deployments(core, cluster, templates).await?;
    let machine_pools = workers::machine_pools(core, cluster, templates).await?;
    let some = |object: &Option<DynamicObject>| object.as_ref().map(value).transpose();
    let current = Current {
        infrastructure_cluster: some(&infrastructure_cluster)?,
        control_plane: some(&control_plane)?,
        control_plane_machines: some(&control_plane_machines)?,
        machine_deployments: workers::current(&machine_deployments)?,
        machine_pools: workers::current_pools(&machine_pools)?,
    };
    Ok(Objects {
        infrastructure_cluster,
        control_plane,
        control_plane_machines,
        control_plane_check,
        machine_deployments,
        machine_pools,
        current,
    })
}

/// The object that a Cluster refers to. One that does not exist must not be created again: other objects depend on it.
async fn referenced(
    core: &Core,
    cluster: &Cluster,
    reference: &ContractVersionedObjectReference,
    template: &Value,
) -> Result<DynamicObject> {
    let namespace = cluster.namespace().unwrap_or_default();
    let of = subject(cluster);
    let found = owned_object(core, &of, &namespace, reference, Some(template), false).await?;
    found.ok_or_else(|| {
        let doing = format!("failed to read {} {namespace}/{}", reference.kind, reference.name);
        Error::transient(doing, format!("{of} refers to it, and it does not exist"))
    })
}

/// A template that an object refers to; `None` if it was deleted.
async fn owned_template(
    core: &Core,
    of: &str,
    namespace: &str,
    reference: &ContractVersionedObjectReference,
    template: Option<&Value>,
) -> Result<Option<DynamicObject>> {
    owned_object(core, of, namespace, reference, template, true).await
}

/// An object that was made from a template of the class, in the version of that template, so that both can be compared.
async fn owned_object(
    core: &Core,
    of: &str,
    namespace: &str,
    reference: &ContractVersionedObjectReference,
    template: Option<&Value>,
    is_template: bool,
) -> Result<Option<DynamicObject>> {
    let ContractVersionedObjectReference { api_group, kind, name } = reference;
    let api_version = match template.and_then(|template| version_of(template, reference, is_template)) {
        Some(api_version) => api_version,
        None => core.externals.resource(api_group, kind).await?.api_version,
    };
    let found = core.externals.get_version((&api_version, kind), namespace, name).await?;
    match found {
        Some(object) if !object.labels().contains_key(OWNED) => {
            let what = format!("is not topology owned, but {of} refers to it");
            Err(Error::user(format!("{kind} {namespace}/{name}"), what))
        }
        found => Ok(found),
    }
}

/// The API version of a template of the class, if the reference is to an object of it.
fn version_of(
    template: &Value,
    reference: &ContractVersionedObjectReference,
    is_template: bool,
) -> Option<String> {
    let text = |field: &str| template.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let kind = if is_template { kind } else { kind.strip_suffix("Template").unwrap_or(kind) };
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    (group == reference.api_group && kind == reference.kind).then(|| api_version.to_owned())
}

/// The template of the machines of a control plane, in both versions of the contract.
fn machine_template_of(control_plane: &DynamicObject) -> Option<ContractVersionedObjectReference> {
    let found = ["/spec/machineTemplate/spec/infrastructureRef", "/spec/machineTemplate/infrastructureRef"]
        .into_iter()
        .find_map(|pointer| control_plane.data.pointer(pointer))?;
    let text = |field: &str| found.get(field).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let api_group = Some(text("apiGroup")).filter(|group| !group.is_empty()).unwrap_or(group);
    Some(ContractVersionedObjectReference {
        api_group: api_group.to_owned(),
        kind: text("kind").to_owned(),
        name: text("name").to_owned(),
    })
    .filter(|reference| !reference.name.is_empty())
}

/// The health check that the topology has made for an object, which has the same name.
async fn health_check(core: &Core, namespace: &str, name: &str) -> Result<Option<Arc<MachineHealthCheck>>> {
    let found = core.caches.of::<MachineHealthCheck>().peek(namespace, name).await?;
    Ok(found.filter(|check| check.labels().contains_key(OWNED)))
}

pub(super) fn kind(object: &DynamicObject) -> String {
    object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default()
}

/// An object as JSON.
pub(super) fn value(object: &impl Serialize) -> Result<Value> {
    serde_json::to_value(object).map_err(|error| Error::transient("cannot serialise an object", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reference(kind: &str) -> ContractVersionedObjectReference {
        ContractVersionedObjectReference {
            api_group: "g".to_owned(),
            kind: kind.to_owned(),
            name: "n".to_owned(),
        }
    }

    #[test]
    fn objects_are_read_in_the_version_of_the_class() {
        let template = json!({"apiVersion": "g/v1", "kind": "MachineTemplate"});
        for (kind, is_template, expected) in [
            ("MachineTemplate", true, Some("g/v1")),
            ("Machine", false, Some("g/v1")),
            ("Machine", true, None),
            ("Other", false, None),
        ] {
            assert_eq!(version_of(&template, &reference(kind), is_template).as_deref(), expected, "{kind}");
        }
    }

    #[test]
    fn the_template_of_machines_is_found_in_both_contracts() {
        let of = |spec: Value| {
            let object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "k"}, "spec": spec});
            machine_template_of(&serde_json::from_value(object).expect("an object"))
        };
        let new = json!({"apiGroup": "g", "kind": "MachineTemplate", "name": "n"});
        let old = json!({"apiVersion": "g/v1", "kind": "MachineTemplate", "name": "n"});
        let expected = Some(reference("MachineTemplate"));
        assert_eq!(of(json!({"machineTemplate": {"spec": {"infrastructureRef": new}}})), expected);
        assert_eq!(of(json!({"machineTemplate": {"infrastructureRef": old}})), expected);
        assert_eq!(of(json!({"machineTemplate": {}})), None);
    }
}
