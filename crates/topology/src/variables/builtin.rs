//! Variables for patches: values of the user, and `builtin`, which describes the cluster and the object that a template
//! is for.

use crate::object::{self, ANNOTATIONS, CONVERSION_DATA, LABELS, LAST_APPLIED};
use capstan_api::core::{Cluster, ClusterVariable, Topology};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the variable with what is known of the cluster.
pub(crate) const BUILTIN: &str = "builtin";

/// Variables by name.
pub(crate) type Variables = BTreeMap<String, Value>;

/// Values that the patch may see: those that its source defines. `defined` are their names.
fn given(values: &[ClusterVariable], defined: &BTreeSet<String>) -> Variables {
    let given = values.iter().filter(|value| value.name != BUILTIN && defined.contains(&value.name));
    given.map(|value| (value.name.clone(), value.value.0.clone())).collect()
}

/// Fields that have a value.
fn fields<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let known = fields.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
    Value::Object(known.collect::<Map<_, _>>())
}

fn filled(text: &str) -> Option<Value> {
    Some(text).filter(|text| !text.is_empty()).map(Value::from)
}

/// Labels and annotations, without annotations that repeat the object.
fn metadata(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Option<Value> {
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    let mut annotations = annotations.clone();
    annotations.retain(|key, _| key != LAST_APPLIED && key != CONVERSION_DATA);
    Some(fields([
        ("labels", (!labels.is_empty()).then(|| json!(labels))),
        ("annotations", (!annotations.is_empty()).then(|| json!(annotations))),
    ]))
}

fn metadata_of(object: &Value) -> Option<Value> {
    metadata(&object::texts(object, LABELS), &object::texts(object, ANNOTATIONS))
}

/// Variables for all templates of a cluster. The metadata is that of the desired Cluster.
pub(crate) fn for_cluster(
    cluster: &Cluster,
    topology: &Topology,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    defined: &BTreeSet<String>,
) -> Variables {
    let mut variables = given(&topology.variables, defined);
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let class = topology.class_ref.name.as_str();
    let class_namespace = topology.class_ref.namespace.as_deref().unwrap_or(namespace);
    let network = cluster.spec.cluster_network.as_ref();
    let ranges = |ranges: Option<&capstan_api::core::NetworkRanges>| {
        ranges.filter(|ranges| !ranges.cidr_blocks.is_empty()).map(|ranges| json!(ranges.cidr_blocks))
    };
    let network = fields([
        ("serviceDomain", network.and_then(|network| network.service_domain.clone()).map(Value::from)),
        ("services", ranges(network.and_then(|network| network.services.as_ref()))),
        ("pods", ranges(network.and_then(|network| network.pods.as_ref()))),
    ]);
    let builtin = fields([
        ("name", filled(cluster.metadata.name.as_deref().unwrap_or_default())),
        ("namespace", filled(namespace)),
        ("uid", filled(cluster.metadata.uid.as_deref().unwrap_or_default())),
        ("metadata", metadata(labels, annotations)),
        (
            "topology",
            Some(fields([
                ("version", filled(&topology.version)),
                ("classRef", Some(json!({"name": class, "namespace": class_namespace}))),
                ("class", filled(class)),
                ("classNamespace", filled(class_namespace)),
            ])),
        ),
        ("network", Some(network).filter(|network| !object::is_empty(network))),
    ]);
    variables.insert(BUILTIN.to_string(), json!({"cluster": builtin}));
    variables
}

/// Variables for the templates of the control plane and of its machines.
pub(crate) fn for_control_plane(
    topology: &Topology,
    control_plane: &Value,
    machine_template: Option<&Value>,
    defined: &BTreeSet<String>,
) -> Variables {
    let wanted = topology.control_plane.as_ref();
    let overrides = wanted.and_then(|wanted| wanted.variables.as_ref());
    let mut variables = given(overrides.map_or(&[][..], |overrides| overrides.overrides.as_slice()), defined);
    let replicas = wanted.and_then(|wanted| wanted.replicas);
    let builtin = fields([
        ("version", filled(object::text(control_plane, &["spec", "version"]))),
        ("metadata", metadata_of(control_plane)),
        ("name", filled(object::name(control_plane))),
        ("replicas", replicas.and_then(|_| object::get(control_plane, &["spec", "replicas"]).cloned())),
        (
            "machineTemplate",
            machine_template.map(|template| json!({"infrastructureRef": {"name": object::name(template)}})),
        ),
    ]);
    variables.insert(BUILTIN.to_string(), json!({"controlPlane": builtin}));
    variables
}

/// The objects of a group of workers, and what its topology says.
pub(crate) struct Workers<'a> {
    pub(crate) overrides: &'a [ClusterVariable],
    pub(crate) class: &'a str,
    pub(crate) topology_name: &'a str,
    pub(crate) object: &'a Value,
    pub(crate) bootstrap: &'a Value,
    pub(crate) infrastructure: &'a Value,
}

impl Workers<'_> {
    fn variables(&self, field: &str, defined: &BTreeSet<String>) -> Variables {
        let mut variables = given(self.overrides, defined);
        let builtin = fields([
            ("version", filled(object::text(self.object, &["spec", "template", "spec", "version"]))),
            ("metadata", metadata_of(self.object)),
            ("class", filled(self.class)),
            ("name", filled(object::name(self.object))),
            ("topologyName", filled(self.topology_name)),
            ("replicas", object::get(self.object, &["spec", "replicas"]).cloned()),
            ("bootstrap", Some(json!({"configRef": {"name": object::name(self.bootstrap)}}))),
            ("infrastructureRef", Some(json!({"name": object::name(self.infrastructure)}))),
        ]);
        variables.insert(BUILTIN.to_string(), json!({field: builtin}));
        variables
    }
}

/// Variables for the templates of a MachineDeployment.
pub(crate) fn for_machine_deployment(workers: &Workers<'_>, defined: &BTreeSet<String>) -> Variables {
    workers.variables("machineDeployment", defined)
}

/// Variables for the templates of a MachinePool.
pub(crate) fn for_machine_pool(workers: &Workers<'_>, defined: &BTreeSet<String>) -> Variables {
    workers.variables("machinePool", defined)
}

/// Variables of the cluster with those of one template over them; `builtin` has the fields of both.
pub(crate) fn merge(global: &Variables, own: &Variables) -> Variables {
    let mut merged = global.clone();
    for (name, value) in own {
        match (merged.get_mut(name), value) {
            (Some(Value::Object(known)), Value::Object(fields)) if name == BUILTIN => {
                known.extend(fields.iter().map(|(field, value)| (field.clone(), value.clone())));
            }
            _ => {
                merged.insert(name.clone(), value.clone());
            }
        }
    }
    merged
}
