//! Clusters. Most of it is about managed topologies: the rules are those of `capstan_topology`; here is which facts they
//! get, and what happens without them.

use crate::facts::{Fact, Facts, Key, Needs, Reference};
use crate::{Rejection, Write, object, read, selector};
use capstan_api::core::{Cluster, ClusterClass, ClusterClassStatusVariable, Topology};
use capstan_api::meta::labels;
use capstan_api::runtime::annotations::PENDING_HOOKS;
use capstan_topology::metadata::UNSAFE_VERSION;
use capstan_topology::upgrade::{Hook, Hooks, parse};
use capstan_topology::validation::{self, ClusterChange, Rollout};
use capstan_topology::variables::{Definitions, default_and_validate};
use capstan_topology::{FieldError, field, validation::Facts as VersionFacts};
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeMap;

const TOPOLOGY: &[&str] = &["spec", "topology"];
const CLASS: &str = "spec.topology.classRef";
const AT_VERSION: &str = "spec.topology.version";

/// Whether the status of a ClusterClass describes its spec, with all variables.
pub fn is_reconciled(class: &Value) -> bool {
    let generation = object::at(class, &["metadata", "generation"]).and_then(Value::as_i64);
    let observed = object::at(class, &["status", "observedGeneration"]).and_then(Value::as_i64);
    let conditions = object::at(class, &["status", "conditions"]).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "VariablesReady");
    generation.unwrap_or_default() == observed.unwrap_or_default()
        && ready.is_some_and(|condition| condition["status"] != "False")
}

fn class_key(cluster: &Value) -> Option<Key> {
    let class = object::at(cluster, &["spec", "topology", "classRef"])?;
    let name = object::text(class, &["name"]).to_owned();
    let namespace = match object::text(class, &["namespace"]) {
        "" => object::text(cluster, &["metadata", "namespace"]),
        namespace => namespace,
    };
    (!name.is_empty()).then(|| Key { namespace: namespace.to_owned(), name })
}

pub(crate) fn needs_of_default(write: &Write<'_>) -> Needs {
    Needs { class: write.new.and_then(class_key), ..Needs::default() }
}

pub(crate) fn needs_of_validate(write: &Write<'_>) -> Needs {
    let Some(new) = write.new.filter(|new| object::at(new, TOPOLOGY).is_some()) else {
        return Needs::default();
    };
    let class = class_key(new);
    let Some(old) = write.old else { return Needs { class, ..Needs::default() } };
    let old_class = class_key(old).filter(|_| changes_class(old, new));
    let mut needs = Needs { class, old_class, ..Needs::default() };
    if changes_version(old, new) {
        let own = |name: &str| Key {
            namespace: object::text(old, &["metadata", "namespace"]).to_owned(),
            name: name.to_owned(),
        };
        needs.workers_of = Some(own(object::text(old, &["metadata", "name"])));
        needs.control_plane = object::at(old, &["spec", "controlPlaneRef"]).map(|reference| Reference {
            group: object::text(reference, &["apiGroup"]).to_owned(),
            kind: object::text(reference, &["kind"]).to_owned(),
            key: own(object::text(reference, &["name"])),
        });
    }
    needs
}

/// Whether a Cluster has another class than before, and had one.
fn changes_class(old: &Value, new: &Value) -> bool {
    class_key(old).is_some_and(|old| Some(old) != class_key(new))
}

/// Whether the version of the topology changes, and the change is checked.
fn changes_version(old: &Value, new: &Value) -> bool {
    let version = |cluster| parse(object::text(cluster, &["spec", "topology", "version"])).ok();
    object::at(old, TOPOLOGY).is_some()
        && version(old) != version(new)
        && object::at(new, &["metadata", "annotations", UNSAFE_VERSION]).is_none()
}

/// Sets the leading `v` of the version, and the defaults of variables. Variables are validated here, too, because the
/// class may be another one when [`validate`] runs.
pub(crate) fn default(cluster: &mut Value, old: Option<&Value>, facts: &Facts) -> Vec<FieldError> {
    if object::at(cluster, TOPOLOGY).is_none_or(|topology| !topology.is_object()) {
        return Vec::new();
    }
    object::set_version_prefix(cluster, TOPOLOGY, "version");
    if class_key(cluster).is_none() {
        return vec![field::required("spec.topology.classRef.name", "name of a ClusterClass")];
    }
    let class = match &facts.class {
        Fact::Known(class) if is_reconciled(class) => class,
        // Core sets the defaults as soon as it has reconciled the class.
        Fact::Known(_) | Fact::Absent => return Vec::new(),
        Fact::Unknown(why) => {
            let why = format!("the variables have no defaults: cannot read the ClusterClass: {why}");
            return vec![field::internal(CLASS, why)];
        }
    };
    let variables = class.pointer("/status/variables").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    let Ok(variables) = Vec::<ClusterClassStatusVariable>::deserialize(variables) else {
        return vec![field::internal(
            CLASS,
            "the variables in the status of the ClusterClass cannot be read",
        )];
    };
    let topology = |cluster: &Value| {
        object::at(cluster, TOPOLOGY).and_then(|topology| Topology::deserialize(topology).ok())
    };
    // What has another shape is rejected by the schema.
    let Some(mut defaulted) = topology(cluster) else { return Vec::new() };
    let old = old.and_then(topology);
    let errors = default_and_validate(&mut defaulted, old.as_ref(), &Definitions::compile(&variables));
    if errors.is_empty() {
        write_variables(cluster, &defaulted);
    }
    errors
}

/// Writes the variables of a topology, and nothing else of it: what the user wrote stays as it is.
fn write_variables(cluster: &mut Value, topology: &Topology) {
    let Ok(defaulted) = serde_json::to_value(topology) else { return };
    let Some(topology) = cluster.pointer_mut("/spec/topology") else { return };
    copy(topology, &defaulted, &["variables"]);
    copy(topology, &defaulted, &["controlPlane", "variables", "overrides"]);
    for groups in ["/workers/machineDeployments", "/workers/machinePools"] {
        let defaulted = defaulted.pointer(groups).and_then(Value::as_array);
        let groups = topology.pointer_mut(groups).and_then(Value::as_array_mut);
        for (group, defaulted) in groups.into_iter().flatten().zip(defaulted.into_iter().flatten()) {
            copy(group, defaulted, &["variables", "overrides"]);
        }
    }
}

fn copy(to: &mut Value, from: &Value, path: &[&str]) {
    let [parents @ .., last] = path else { return };
    if let Some(value) = object::at(from, path) {
        object::set(to, parents, last, value.clone());
    }
}

pub(crate) fn validate(
    new: &Value,
    old: Option<&Value>,
    facts: &Facts,
    warnings: &mut Vec<String>,
) -> Result<Vec<FieldError>, Rejection> {
    // The schema has the rules of Clusters without a topology.
    if object::at(new, TOPOLOGY).is_none() {
        return Ok(Vec::new());
    }
    let cluster: Cluster = read(new)?;
    let class = match &facts.class {
        Fact::Unknown(why) => {
            return Ok(vec![field::internal(CLASS, format!("cannot read the ClusterClass: {why}"))]);
        }
        Fact::Absent => {
            warnings.push(incomplete(new, "does not exist"));
            None
        }
        Fact::Known(class) => {
            if !is_reconciled(class) {
                warnings.push(incomplete(new, "is not reconciled yet; see its conditions"));
            }
            Some(read::<ClusterClass>(class)?)
        }
    };
    let Some(old) = old else { return Ok(validation::cluster(&cluster, class.as_ref(), None)) };
    let mut errors = Vec::new();
    let before: Cluster = read(old)?;
    let old_class = match &facts.old_class {
        Fact::Known(class) => Some(read::<ClusterClass>(class)?),
        Fact::Unknown(why) if changes_class(old, new) => {
            return Ok(vec![field::internal(CLASS, format!("cannot read the ClusterClass before: {why}"))]);
        }
        Fact::Unknown(_) | Fact::Absent => None,
    };
    if object::at(new, &["metadata", "annotations", UNSAFE_VERSION]).is_some() {
        warnings
            .push(format!("changes of the version are not checked: annotation {UNSAFE_VERSION:?} is set"));
    }
    let hooks = pending_hooks(new);
    let version_facts = match changes_version(old, new).then(|| version_facts(facts, &hooks)) {
        None => None,
        Some(Ok(facts)) => Some(facts),
        Some(Err(why)) => {
            let why =
                format!("cannot be changed: it is not known whether the upgrade before is finished: {why}");
            errors.push(field::invalid(AT_VERSION, object::text(new, &["spec", "topology", "version"]), why));
            None
        }
    };
    let change = ClusterChange { old: &before, old_class: old_class.as_ref(), facts: version_facts };
    errors.extend(validation::cluster(&cluster, class.as_ref(), Some(&change)));
    Ok(errors)
}

fn incomplete(cluster: &Value, why: &str) -> String {
    let name = class_key(cluster).map(|key| format!("{}/{}", key.namespace, key.name)).unwrap_or_default();
    format!("ClusterClass {name} {why}: the topology is not completely validated")
}

fn pending_hooks(cluster: &Value) -> Hooks {
    let pending = object::text(cluster, &["metadata", "annotations", PENDING_HOOKS]);
    let is_pending = |hook: &Hook| pending.split(',').any(|name| name.trim() == hook.to_string());
    let pending = [Hook::AfterClusterUpgrade].into_iter().filter(is_pending).collect();
    Hooks { pending, ..Hooks::default() }
}

/// The objects of a cluster whose version changes.
fn version_facts<'a>(facts: &'a Facts, hooks: &'a Hooks) -> Result<VersionFacts<'a>, String> {
    let control_plane = match &facts.control_plane {
        Fact::Known(control_plane) => control_plane,
        Fact::Absent => return Err("the control plane does not exist".to_owned()),
        Fact::Unknown(why) => return Err(format!("the control plane cannot be read: {why}")),
    };
    let workers = match &facts.workers {
        Fact::Known(workers) => workers,
        Fact::Absent => return Err("the workers were not read".to_owned()),
        Fact::Unknown(why) => return Err(format!("the workers cannot be read: {why}")),
    };
    let deployments = workers.deployments.iter().map(|object| {
        let selector = selector::read(object, &["spec", "selector"]);
        let machines = workers.machines.iter().filter(|one| selector::matches(&selector, &labels_of(one)));
        Rollout { object, is_upgrading: has_other_version(object, machines) }
    });
    let pools = workers.pools.iter().map(|object| {
        let name = object::text(object, &["metadata", "name"]);
        let machines = workers
            .machines
            .iter()
            .filter(|one| object::text(one, &["metadata", "labels", labels::POOL_NAME]) == name);
        let reports = has_reported_other_version(object);
        Rollout { object, is_upgrading: reports || has_other_version(object, machines) }
    });
    Ok(VersionFacts { control_plane, workers: deployments.chain(pools).collect(), hooks })
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = object::at(object, &["metadata", "labels"]);
    labels.and_then(|labels| BTreeMap::deserialize(labels).ok()).unwrap_or_default()
}

fn version_of(group: &Value) -> &str {
    object::text(group, &["spec", "template", "spec", "version"])
}

/// Whether a Machine of a group has another version, or a kubelet of another version.
fn has_other_version<'a>(group: &Value, mut machines: impl Iterator<Item = &'a Value>) -> bool {
    let version = version_of(group);
    machines.any(|machine| {
        let kubelet = object::text(machine, &["status", "nodeInfo", "kubeletVersion"]);
        object::text(machine, &["spec", "version"]) != version || (!kubelet.is_empty() && kubelet != version)
    })
}

/// Whether the status of a MachinePool counts machines with another version: its machines may not be Machines.
fn has_reported_other_version(pool: &Value) -> bool {
    let versions = object::at(pool, &["status", "versions"]).and_then(Value::as_array);
    versions.into_iter().flatten().any(|one| object::text(one, &["version"]) != version_of(pool))
}
