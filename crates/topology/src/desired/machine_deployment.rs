//! MachineDeployments, their templates and health checks.

use super::cloned::{Cloned, name_of_ref};
use super::{ComputeError, Groups, Input, Names, health_check, holds_workers};
use crate::metadata::{self, DEPLOYMENT_NAME, OWNED};
use crate::names::{self, Suffixes};
use crate::object;
use crate::state::{CurrentWorkers, DesiredWorkers};
use crate::upgrade::{self, Group, Progress};
use capstan_api::core::{MachineDeploymentClass, MachineDeploymentTopology};
use capstan_api::meta::labels::CLUSTER_NAME;
use serde_json::{Value, json};

const KIND: &str = "MachineDeployment";
const NAME: &str = "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}-{{ .random }}";

/// All MachineDeployments of the topology.
pub(super) fn all(
    input: &Input<'_>,
    cluster: &Names<'_>,
    progress: &mut Progress,
    suffixes: &mut dyn Suffixes,
) -> Result<Groups, ComputeError> {
    let topologies = input.blueprint.machine_deployments();
    let deferred = upgrade::deferred(topologies.iter().map(|one| one.metadata.as_ref()));
    let is_held = holds_workers(input.hooks, progress);
    let mut groups = Groups::new();
    for (topology, is_deferred) in topologies.iter().zip(deferred) {
        let current = input.current.machine_deployments.get(&topology.name);
        let group = Group {
            topology_name: &topology.name,
            current: current.map(|current| (object::name(&current.object), current.version())),
            is_deferred,
        };
        let wanted = &input.blueprint.topology.version;
        let workers = &mut progress.machine_deployments;
        let version = upgrade::decide_workers(group, wanted, &progress.control_plane, is_held, workers)?;
        groups.insert(topology.name.clone(), one(input, cluster, topology, current, &version, suffixes)?);
    }
    Ok(groups)
}

fn one(
    input: &Input<'_>,
    cluster: &Names<'_>,
    topology: &MachineDeploymentTopology,
    current: Option<&CurrentWorkers>,
    version: &str,
    suffixes: &mut dyn Suffixes,
) -> Result<DesiredWorkers, ComputeError> {
    let blueprint = input.blueprint;
    let class = blueprint.machine_deployment_class(&topology.class).ok_or_else(|| ComputeError::NoClass {
        field: format!("spec.topology.workers.machineDeployments[{}].class", topology.name),
        kind: KIND,
        class: topology.class.clone(),
    })?;
    let templates = blueprint
        .machine_deployment_templates
        .get(&topology.class)
        .ok_or_else(|| ComputeError::NoTemplates { kind: KIND, class: topology.class.clone() })?;

    let prefix = format!("{}-{}-", cluster.name, topology.name);
    let mut template = |template: &Value, exists: bool, path: &[&str]| {
        let known = current.filter(|_| exists).and_then(|current| object::get(&current.object, path));
        let name = name_of_ref(known).unwrap_or_else(|| names::from_prefix(&prefix, suffixes));
        let mut clone = Cloned::plain(name, Some(cluster.owner()), cluster);
        clone.labels.insert(DEPLOYMENT_NAME.to_string(), topology.name.clone());
        clone.template(template)
    };
    let has_bootstrap = current.is_some_and(|current| current.bootstrap.is_some());
    let has_infrastructure = current.is_some_and(|current| current.infrastructure.is_some());
    let bootstrap = template(
        &templates.bootstrap,
        has_bootstrap,
        &["spec", "template", "spec", "bootstrap", "configRef"],
    );
    let infrastructure = template(
        &templates.infrastructure,
        has_infrastructure,
        &["spec", "template", "spec", "infrastructureRef"],
    );

    let naming = class.naming.as_ref().and_then(|naming| naming.template.as_deref()).unwrap_or(NAME);
    let name = match current {
        Some(current) => object::name(&current.object).to_string(),
        None => {
            let workers = Some(("machineDeployment", topology.name.as_str()));
            names::from_template(naming, cluster.name, workers, suffixes)
                .map_err(|why| ComputeError::Name { what: format!("{KIND} {:?}", topology.name), why })?
        }
    };
    let object = deployment(cluster, topology, class, &name, version, &bootstrap, &infrastructure);
    let check = health_check::chosen(topology.health_check.as_ref(), class.health_check.as_ref());
    let selector = health_check::selector(DEPLOYMENT_NAME, &topology.name);
    let health_check = check.map(|check| check.object(&object, &selector, cluster));
    Ok(DesiredWorkers { object, bootstrap, infrastructure, health_check })
}

fn deployment(
    cluster: &Names<'_>,
    topology: &MachineDeploymentTopology,
    class: &MachineDeploymentClass,
    name: &str,
    version: &str,
    bootstrap: &Value,
    infrastructure: &Value,
) -> Value {
    let metadata = metadata::of_workers(
        topology.metadata.as_ref(),
        class.metadata.as_ref(),
        cluster.name,
        (DEPLOYMENT_NAME, &topology.name),
    );
    let mut made = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": KIND,
        "metadata": metadata,
        "spec": {
            "clusterName": cluster.name,
            // With these labels only, so that labels of topology and class can change.
            "selector": {"matchLabels": {
                CLUSTER_NAME: cluster.name,
                OWNED: "",
                DEPLOYMENT_NAME: topology.name,
            }},
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
    let rollout = object::some(&topology.rollout).or_else(|| object::some(&class.rollout));
    object::set_some(&mut made, &["spec", "rollout"], rollout);

    let (wanted, otherwise) =
        (topology.deletion.clone().unwrap_or_default(), class.deletion.clone().unwrap_or_default());
    let order = object::some(&wanted.order.or(otherwise.order));
    object::set_some(&mut made, &["spec", "deletion", "order"], order);
    let of_topology = topology.health_check.as_ref().and_then(|one| one.remediation.as_ref());
    let of_class = class.health_check.as_ref().and_then(|one| one.remediation.as_ref());
    let in_flight = of_topology
        .and_then(|one| one.max_in_flight.as_ref())
        .or_else(|| of_class.and_then(|one| one.max_in_flight.as_ref()));
    object::set_some(&mut made, &["spec", "remediation", "maxInFlight"], in_flight.map(|most| json!(most)));

    let mut of_machines = |field: &[&str], value: Option<Value>| {
        let path: Vec<&str> = ["spec", "template", "spec"].iter().chain(field).copied().collect();
        object::set_some(&mut made, &path, value);
    };
    let failure_domain = topology.failure_domain.as_ref().or(class.failure_domain.as_ref());
    of_machines(&["failureDomain"], failure_domain.map(|domain| json!(domain)));
    let drain = wanted.node_drain_timeout_seconds.or(otherwise.node_drain_timeout_seconds);
    of_machines(&["deletion", "nodeDrainTimeoutSeconds"], drain.map(Value::from));
    let detach = wanted.node_volume_detach_timeout_seconds.or(otherwise.node_volume_detach_timeout_seconds);
    of_machines(&["deletion", "nodeVolumeDetachTimeoutSeconds"], detach.map(Value::from));
    let deletion = wanted.node_deletion_timeout_seconds.or(otherwise.node_deletion_timeout_seconds);
    of_machines(&["deletion", "nodeDeletionTimeoutSeconds"], deletion.map(Value::from));
    let gates = object::some(&topology.readiness_gates).or_else(|| object::some(&class.readiness_gates));
    of_machines(&["readinessGates"], gates);
    of_machines(&["taints"], object::some(&topology.taints).or_else(|| object::some(&class.taints)));
    let ready = topology.min_ready_seconds.or(class.min_ready_seconds);
    of_machines(&["minReadySeconds"], ready.map(Value::from));
    made
}
