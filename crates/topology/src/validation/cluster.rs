//! The topology of a Cluster. Variables are validated by [`default_and_validate`](crate::variables::default_and_validate).

use super::class::{repeated, taints};
use super::class_in_use::{is_defined, says_what};
use super::version_change::{self, Facts};
use super::{compatibility, words};
use crate::field;
use crate::metadata::{UNSAFE_CLASS_NAME, UPGRADE_CONCURRENCY};
use capstan_api::core::{
    Cluster, ClusterClass, MachineDeploymentTopology, Topology, WorkersClass, WorkersTopology,
};
use capstan_api::meta::TemplateMetadata;
use capstan_api::meta::annotations::{AUTOSCALER_MAX_SIZE, AUTOSCALER_MIN_SIZE};
use capstan_apiserver_schema::FieldError;

/// A Cluster before a change.
#[derive(Clone, Debug)]
pub struct ClusterChange<'a> {
    /// The Cluster before.
    pub old: &'a Cluster,
    /// Its class before. Needed if the change names another class.
    pub old_class: Option<&'a ClusterClass>,
    /// The objects of the cluster. Needed if the change names another version.
    pub facts: Option<Facts<'a>>,
}

const AT: &str = "spec.topology";

/// All errors of the topology of a Cluster. Without the class, only what does not depend on it.
pub fn cluster(
    cluster: &Cluster,
    class: Option<&ClusterClass>,
    change: Option<&ClusterChange<'_>>,
) -> Vec<FieldError> {
    let had = change.is_some_and(|change| change.old.spec.topology.is_some());
    let Some(topology) = &cluster.spec.topology else {
        return if had { vec![field::forbidden(AT, "cannot be removed")] } else { Vec::new() };
    };
    let mut errors = by_itself(cluster, topology);
    if let Some(class) = class {
        errors.extend(for_class(topology, class));
    }
    errors.extend(autoscaled(cluster, class));
    if let Some(change) = change {
        errors.extend(changed(cluster, topology, class, change));
    }
    errors
}

/// Errors that do not depend on the class.
fn by_itself(cluster: &Cluster, topology: &Topology) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if topology.class_ref.name.is_empty() {
        errors.push(field::required("spec.topology.classRef.name", "name of a ClusterClass"));
    }
    if capstan_text::Version::parse_with_v(&topology.version).is_none() {
        let why = "must be a semantic version that starts with v";
        errors.push(field::invalid("spec.topology.version", topology.version.as_str(), why));
    }
    if let Some(control_plane) = &topology.control_plane {
        let at = field::child(AT, "controlPlane");
        errors.extend(words::metadata(control_plane.metadata.as_ref(), &field::child(&at, "metadata")));
        errors.extend(taints(&control_plane.taints, &field::child(&at, "taints")));
    }
    let none = WorkersTopology::default();
    let workers = topology.workers.as_ref().unwrap_or(&none);
    for one in &workers.machine_deployments {
        let at = deployment(&one.name);
        errors.extend(words::metadata(one.metadata.as_ref(), &field::child(&at, "metadata")));
        errors.extend(taints(&one.taints, &field::child(&at, "taints")));
        let strategy = one.rollout.as_ref().and_then(|rollout| rollout.strategy.as_ref());
        let limits = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        errors.extend(words::rolling_update(limits, &field::child(&at, "rollout.strategy")));
    }
    for one in &workers.machine_pools {
        let at = field::entry("spec.topology.workers.machinePools", &one.name);
        errors.extend(words::metadata(one.metadata.as_ref(), &field::child(&at, "metadata")));
        errors.extend(taints(&one.taints, &field::child(&at, "taints")));
    }
    let annotations = cluster.metadata.annotations.as_ref();
    if let Some(most) = annotations.and_then(|annotations| annotations.get(UPGRADE_CONCURRENCY))
        && most.parse::<usize>().ok().is_none_or(|most| most == 0)
    {
        let at = field::child("metadata.annotations", UPGRADE_CONCURRENCY);
        errors.push(field::invalid(&at, most.as_str(), "must be a number of at least 1"));
    }
    errors
}

fn deployment(name: &str) -> String {
    field::entry("spec.topology.workers.machineDeployments", name)
}

/// Errors of a topology for its class.
fn for_class(topology: &Topology, class: &ClusterClass) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let versions = &class.spec.kubernetes_versions;
    if !versions.is_empty() && !versions.contains(&topology.version) {
        let why = "must be one of spec.kubernetesVersions of the ClusterClass";
        errors.push(field::invalid("spec.topology.version", topology.version.as_str(), why));
    }
    let none = (WorkersTopology::default(), WorkersClass::default());
    let workers = topology.workers.as_ref().unwrap_or(&none.0);
    let classes = class.spec.workers.as_ref().unwrap_or(&none.1);
    let at = "spec.topology.workers.machineDeployments";
    for (i, one) in workers.machine_deployments.iter().enumerate() {
        if !classes.machine_deployments.iter().any(|class| class.class == one.class) {
            errors.push(unknown_class(at, i, &one.class));
        }
    }
    errors.extend(named(workers.machine_deployments.iter().map(|one| one.name.as_str()), at));
    let at = "spec.topology.workers.machinePools";
    for (i, one) in workers.machine_pools.iter().enumerate() {
        if !classes.machine_pools.iter().any(|class| class.class == one.class) {
            errors.push(unknown_class(at, i, &one.class));
        }
    }
    errors.extend(named(workers.machine_pools.iter().map(|one| one.name.as_str()), at));
    errors.extend(health_checks(topology, workers, class, classes));
    errors
}

fn unknown_class(at: &str, i: usize, class: &str) -> FieldError {
    field::invalid(
        &field::child(&field::entry(at, i), "class"),
        class,
        "the ClusterClass has no such class of workers",
    )
}

/// Errors of names that are empty, or not unique.
fn named<'a>(names: impl Iterator<Item = &'a str> + Clone, at: &str) -> Vec<FieldError> {
    let empty = names.clone().enumerate().filter(|(_, name)| name.is_empty());
    let mut errors: Vec<FieldError> = empty
        .map(|(i, _)| field::required(&field::child(&field::entry(at, i), "name"), "name of the group"))
        .collect();
    errors.extend(repeated(names, at, "name"));
    errors
}

const NO_CHECK: &str = "cannot be true: neither the Cluster nor the ClusterClass defines a health check";

fn health_checks(
    topology: &Topology,
    workers: &WorkersTopology,
    class: &ClusterClass,
    classes: &WorkersClass,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let control_plane = topology.control_plane.as_ref().and_then(|topology| topology.health_check.as_ref());
    if let Some(check) = control_plane {
        let at = "spec.topology.controlPlane.healthCheck";
        let of_class = &class.spec.control_plane;
        if says_what(check) {
            if of_class.machine_infrastructure.is_none() {
                errors.push(field::forbidden(
                    at,
                    "the ClusterClass has no machineInfrastructure for the control plane",
                ));
            }
            errors.extend(words::startup(check.checks.as_ref(), at));
            let trigger = check.remediation.as_ref().and_then(|remediation| remediation.trigger_if.as_ref());
            let most = trigger.and_then(|trigger| trigger.unhealthy_less_than_or_equal_to.as_ref());
            errors.extend(words::amount(
                most,
                &field::child(at, "remediation.triggerIf.unhealthyLessThanOrEqualTo"),
            ));
        } else if check.enabled == Some(true) && !is_defined(&of_class.health_check) {
            errors.push(field::forbidden(&field::child(at, "enabled"), NO_CHECK));
        }
    }
    for one in &workers.machine_deployments {
        let Some(check) = &one.health_check else { continue };
        let at = field::child(&deployment(&one.name), "healthCheck");
        if says_what(check) {
            errors.extend(words::startup(check.checks.as_ref(), &at));
            if let Some(remediation) = &check.remediation {
                let at = field::child(&at, "remediation");
                let trigger = remediation.trigger_if.as_ref();
                let most = trigger.and_then(|trigger| trigger.unhealthy_less_than_or_equal_to.as_ref());
                errors
                    .extend(words::amount(most, &field::child(&at, "triggerIf.unhealthyLessThanOrEqualTo")));
                errors.extend(words::amount(
                    remediation.max_in_flight.as_ref(),
                    &field::child(&at, "maxInFlight"),
                ));
            }
        } else if check.enabled == Some(true) {
            let of_class = classes.machine_deployments.iter().find(|class| class.class == one.class);
            if of_class.is_some_and(|class| !is_defined(&class.health_check)) {
                errors.push(field::forbidden(&field::child(&at, "enabled"), NO_CHECK));
            }
        }
    }
    errors
}

/// Errors of groups whose number of machines is set by both the topology and an autoscaler.
pub(super) fn autoscaled(cluster: &Cluster, class: Option<&ClusterClass>) -> Vec<FieldError> {
    let has = |metadata: Option<&TemplateMetadata>| {
        metadata.is_some_and(|metadata| {
            let annotations = &metadata.annotations;
            annotations.contains_key(AUTOSCALER_MIN_SIZE) || annotations.contains_key(AUTOSCALER_MAX_SIZE)
        })
    };
    let workers = cluster.spec.topology.as_ref().and_then(|topology| topology.workers.as_ref());
    let groups = workers.map(|workers| workers.machine_deployments.as_slice()).unwrap_or_default();
    let classes = class.and_then(|class| class.spec.workers.as_ref());
    let classes = classes.map(|workers| workers.machine_deployments.as_slice()).unwrap_or_default();
    let mut errors = Vec::new();
    for (one, replicas) in
        groups.iter().filter_map(|one: &MachineDeploymentTopology| Some((one, one.replicas?)))
    {
        let at = field::child(&deployment(&one.name), "replicas");
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        if has(one.metadata.as_ref()) {
            let why = format!(
                "cannot be set in Cluster {name:?}: annotations of the group leave it to an autoscaler"
            );
            errors.push(field::invalid(&at, replicas, why));
        }
        let of_class = classes.iter().find(|class| class.class == one.class);
        if of_class.is_some_and(|class| has(class.metadata.as_ref())) {
            let class = &one.class;
            let why = format!(
                "cannot be set in Cluster {name:?}: annotations of class {class:?} leave it to an autoscaler"
            );
            errors.push(field::invalid(&at, replicas, why));
        }
    }
    errors
}

/// Errors of a change.
fn changed(
    cluster: &Cluster,
    topology: &Topology,
    class: Option<&ClusterClass>,
    change: &ClusterChange<'_>,
) -> Vec<FieldError> {
    let at = "spec.topology.classRef";
    let Some(class) = class else {
        return vec![field::internal(at, "the ClusterClass does not exist, so the change cannot be checked")];
    };
    let Some(old) = &change.old.spec.topology else {
        let annotations = cluster.metadata.annotations.as_ref();
        if annotations.is_some_and(|annotations| annotations.contains_key(UNSAFE_CLASS_NAME)) {
            return Vec::new();
        }
        return vec![field::forbidden(at, "cannot be added to a Cluster that exists")];
    };
    let mut errors = Vec::new();
    let facts = change.facts.as_ref();
    errors.extend(version_change::check(cluster, &old.version, &topology.version, class, facts));
    let namespace = cluster.metadata.namespace.as_deref();
    let key = |topology: &Topology| {
        let namespace = topology.class_ref.namespace.as_deref().or(namespace).map(ToString::to_string);
        (topology.class_ref.name.clone(), namespace)
    };
    if key(old) != key(topology) {
        match change.old_class {
            Some(old_class) => errors.extend(compatibility::classes(old_class, class)),
            None => {
                let why = format!(
                    "cannot be changed: ClusterClass {:?} does not exist any more",
                    old.class_ref.name
                );
                errors.push(field::forbidden(at, why));
            }
        }
    }
    errors
}
