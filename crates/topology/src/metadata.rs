//! Labels and annotations that the topology sets, and how those of topology and class are merged.

use capstan_api::meta::{TemplateMetadata, annotations, labels};
use std::collections::BTreeMap;

/// On every object of a managed topology. The value is empty.
pub const OWNED: &str = "topology.cluster.x-k8s.io/owned";
/// Name of the MachineDeployment in the topology.
pub const DEPLOYMENT_NAME: &str = "topology.cluster.x-k8s.io/deployment-name";
/// Name of the MachinePool in the topology.
pub const POOL_NAME: &str = "topology.cluster.x-k8s.io/pool-name";
/// On a group of workers in the topology: its upgrade waits, other groups go on.
pub const DEFER_UPGRADE: &str = "topology.cluster.x-k8s.io/defer-upgrade";
/// On a group of workers in the topology: its upgrade and that of all groups after it wait.
pub const HOLD_UPGRADE_SEQUENCE: &str = "topology.cluster.x-k8s.io/hold-upgrade-sequence";
/// On a Cluster: how many groups of workers of one kind may upgrade at the same time.
pub const UPGRADE_CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";
/// On a Cluster: the version of the control plane during an upgrade.
pub const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";
/// Prefix of annotations on a Cluster that block the start of an upgrade.
pub const BEFORE_UPGRADE_PREFIX: &str = "before-upgrade.hook.cluster.cluster.x-k8s.io";
/// On a Cluster: a topology may be added to it.
pub const UNSAFE_CLASS_NAME: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";
/// On a Cluster: changes of the version are not validated.
pub const UNSAFE_VERSION: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";

/// Metadata that patches cannot change.
pub(crate) const PRESERVED: &[&[&str]] = &[
    &["metadata", "labels", labels::CLUSTER_NAME],
    &["metadata", "labels", OWNED],
    &["metadata", "labels", DEPLOYMENT_NAME],
    &["metadata", "labels", POOL_NAME],
    &["metadata", "annotations", annotations::CLONED_FROM_NAME],
    &["metadata", "annotations", annotations::CLONED_FROM_GROUP_KIND],
];

/// Labels or annotations of both; the first wins.
pub(crate) fn merge(
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut merged = second.clone();
    merged.extend(first.iter().map(|(key, value)| (key.clone(), value.clone())));
    merged
}

/// Metadata of topology and class; the topology wins.
pub(crate) fn merged(
    topology: Option<&TemplateMetadata>,
    class: Option<&TemplateMetadata>,
) -> TemplateMetadata {
    let of = |metadata: Option<&TemplateMetadata>| metadata.cloned().unwrap_or_default();
    let (topology, class) = (of(topology), of(class));
    TemplateMetadata {
        labels: merge(&topology.labels, &class.labels),
        annotations: merge(&topology.annotations, &class.annotations),
    }
}

/// Sets the labels of every object of a cluster.
pub(crate) fn own(found: &mut BTreeMap<String, String>, cluster: &str) {
    found.insert(labels::CLUSTER_NAME.to_string(), cluster.to_string());
    found.insert(OWNED.to_string(), String::new());
}

/// Metadata of a group of workers and its machines. Annotations about upgrades stay in the topology.
pub(crate) fn of_workers(
    topology: Option<&TemplateMetadata>,
    class: Option<&TemplateMetadata>,
    cluster: &str,
    name: (&str, &str),
) -> TemplateMetadata {
    let mut metadata = merged(topology, class);
    metadata.annotations.retain(|key, _| key != HOLD_UPGRADE_SEQUENCE && key != DEFER_UPGRADE);
    own(&mut metadata.labels, cluster);
    metadata.labels.insert(name.0.to_string(), name.1.to_string());
    metadata
}
