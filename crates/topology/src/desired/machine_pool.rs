//! MachinePools, with their bootstrap data and infrastructure.

use super::cloned::{Cloned, name_of_ref};
use super::{ComputeError, Groups, Input, Names, holds_workers};
use crate::metadata::{self, POOL_NAME};
use crate::names::{self, Suffixes};
use crate::object;
use crate::state::{CurrentWorkers, DesiredWorkers};
use crate::upgrade::{self, Group, Progress};
use capstan_api::core::{MachinePoolClass, MachinePoolTopology};
use serde_json::{Value, json};

const KIND: &str = "MachinePool";
const NAME: &str = "{{ .cluster.name }}-{{ .machinePool.topologyName }}-{{ .random }}";

/// All MachinePools of the topology.
pub(super) fn all(
    input: &Input<'_>,
    cluster: &Names<'_>,
    progress: &mut Progress,
    suffixes: &mut dyn Suffixes,
) -> Result<Groups, ComputeError> {
    let topologies = input.blueprint.machine_pools();
    let deferred = upgrade::deferred(topologies.iter().map(|one| one.metadata.as_ref()));
    let is_held = holds_workers(input.hooks, progress);
    let mut groups = Groups::new();
    for (topology, is_deferred) in topologies.iter().zip(deferred) {
        let current = input.current.machine_pools.get(&topology.name);
        let group = Group {
            topology_name: &topology.name,
            current: current.map(|current| (object::name(&current.object), current.version())),
            is_deferred,
        };
        let wanted = &input.blueprint.topology.version;
        let workers = &mut progress.machine_pools;
        let version = upgrade::decide_workers(group, wanted, &progress.control_plane, is_held, workers)?;
        groups.insert(topology.name.clone(), one(input, cluster, topology, current, &version, suffixes)?);
    }
    Ok(groups)
}

fn one(
    input: &Input<'_>,
    cluster: &Names<'_>,
    topology: &MachinePoolTopology,
    current: Option<&CurrentWorkers>,
    version: &str,
    suffixes: &mut dyn Suffixes,
) -> Result<DesiredWorkers, ComputeError> {
    let blueprint = input.blueprint;
    let class = blueprint.machine_pool_class(&topology.class).ok_or_else(|| ComputeError::NoClass {
        field: format!("spec.topology.workers.machinePools[{}].class", topology.name),
        kind: KIND,
        class: topology.class.clone(),
    })?;
    let templates = blueprint
        .machine_pool_templates
        .get(&topology.class)
        .ok_or_else(|| ComputeError::NoTemplates { kind: KIND, class: topology.class.clone() })?;

    let prefix = format!("{}-{}-", cluster.name, topology.name);
    let mut object_of = |template: &Value, what: &str, exists: bool, path: &[&str]| {
        let known = current.filter(|_| exists).and_then(|current| object::get(&current.object, path));
        let what = format!("pool/{}/{what}", topology.name);
        let name = name_of_ref(known).unwrap_or_else(|| names::lasting_from_prefix(&prefix, &what, suffixes));
        let mut clone = Cloned::plain(name, Some(cluster.owner()), cluster);
        clone.labels.insert(POOL_NAME.to_string(), topology.name.clone());
        clone.object(template)
    };
    let has_bootstrap = current.is_some_and(|current| current.bootstrap.is_some());
    let has_infrastructure = current.is_some_and(|current| current.infrastructure.is_some());
    let bootstrap = object_of(
        &templates.bootstrap,
        "bootstrap",
        has_bootstrap,
        &["spec", "template", "spec", "bootstrap", "configRef"],
    );
    let infrastructure = object_of(
        &templates.infrastructure,
        "infrastructure",
        has_infrastructure,
        &["spec", "template", "spec", "infrastructureRef"],
    );

    let naming = class.naming.as_ref().and_then(|naming| naming.template.as_deref()).unwrap_or(NAME);
    let name = match current {
        Some(current) => object::name(&current.object).to_string(),
        None => {
            let workers = Some(("machinePool", topology.name.as_str()));
            names::from_template(naming, cluster.name, workers, suffixes)
                .map_err(|why| ComputeError::Name { what: format!("{KIND} {:?}", topology.name), why })?
        }
    };
    let object = pool(cluster, topology, class, &name, version, &bootstrap, &infrastructure);
    Ok(DesiredWorkers { object, bootstrap, infrastructure, health_check: None })
}

fn pool(
    cluster: &Names<'_>,
    topology: &MachinePoolTopology,
    class: &MachinePoolClass,
    name: &str,
    version: &str,
    bootstrap: &Value,
    infrastructure: &Value,
) -> Value {
    let metadata = metadata::of_workers(
        topology.metadata.as_ref(),
        class.metadata.as_ref(),
        cluster.name,
        (POOL_NAME, &topology.name),
    );
    let mut made = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": KIND,
        "metadata": metadata,
        "spec": {
            "clusterName": cluster.name,
            "template": {
                "metadata": metadata,
                "spec": {
                    "clusterName": cluster.name,
                    "version": version,
                    "bootstrap": {"configRef": object::reference(bootstrap)},
                    "infrastructureRef": object::reference(infrastructure),
                },
            },
        },
    });
    object::set(&mut made, &["metadata", "name"], json!(name));
    object::set(&mut made, &["metadata", "namespace"], json!(cluster.namespace));
    object::set_some(&mut made, &["spec", "replicas"], topology.replicas.map(Value::from));
    let domains = object::some(&topology.failure_domains).or_else(|| object::some(&class.failure_domains));
    object::set_some(&mut made, &["spec", "failureDomains"], domains);

    let (wanted, otherwise) =
        (topology.deletion.clone().unwrap_or_default(), class.deletion.clone().unwrap_or_default());
    let mut of_machines = |field: &[&str], value: Option<Value>| {
        let path: Vec<&str> = ["spec", "template", "spec"].iter().chain(field).copied().collect();
        object::set_some(&mut made, &path, value);
    };
    let drain = wanted.node_drain_timeout_seconds.or(otherwise.node_drain_timeout_seconds);
    of_machines(&["deletion", "nodeDrainTimeoutSeconds"], drain.map(Value::from));
    let detach = wanted.node_volume_detach_timeout_seconds.or(otherwise.node_volume_detach_timeout_seconds);
    of_machines(&["deletion", "nodeVolumeDetachTimeoutSeconds"], detach.map(Value::from));
    let deletion = wanted.node_deletion_timeout_seconds.or(otherwise.node_deletion_timeout_seconds);
    of_machines(&["deletion", "nodeDeletionTimeoutSeconds"], deletion.map(Value::from));
    of_machines(&["taints"], object::some(&topology.taints).or_else(|| object::some(&class.taints)));
    let ready = topology.min_ready_seconds.or(class.min_ready_seconds);
    of_machines(&["minReadySeconds"], ready.map(Value::from));
    made
}
