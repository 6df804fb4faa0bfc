//! Small types that many kinds share, and the names everybody must spell the same way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use crate::schema::{CONDITION_TYPE, DNS_SUBDOMAIN, KIND};

/// The API version of the core kinds.
pub const V1BETA2: &str = "v1beta2";

/// Label keys of the contract.
pub mod labels {
    /// Which Cluster an object belongs to; stamped by core on everything it reconciles.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Marks the Machines of a control plane; the value is empty.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    /// Name of the control plane object that owns a Machine.
    pub const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
    /// Name of the MachineSet that owns a Machine.
    pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";
    /// Name of the MachineDeployment above a Machine.
    pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
    /// Name of the MachinePool that owns a Machine.
    pub const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
    /// Which manager is meant to reconcile an object, when several run.
    pub const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
    /// Set on Nodes whose machine may be taken away at any time.
    pub const INTERRUPTIBLE: &str = "cluster.x-k8s.io/interruptible";
    /// Which provider an installed object is part of.
    pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
    /// On pods: `skip` or `wait-completed` while a Node is drained.
    pub const DRAIN: &str = "cluster.x-k8s.io/drain";
    /// Tells the MachineSets of one MachineDeployment apart.
    pub const MACHINE_TEMPLATE_HASH: &str = "machine-template-hash";
    /// On a provider's CRD: which of its versions implement the v1beta2 contract.
    pub const CONTRACT_V1BETA2: &str = "cluster.x-k8s.io/v1beta2";
    /// Everything clusterctl has installed.
    pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
    /// On CRDs, or on one object: move these objects even though no owner reference leads to a Cluster.
    pub const CLUSTERCTL_MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
    /// On CRDs: move these objects and everything below them.
    pub const CLUSTERCTL_MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
}

/// Annotation keys of the contract.
pub mod annotations {
    /// Nobody reconciles an object that carries this, whatever its value.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// clusterctl has moved the object to another plane and is about to delete it here.
    pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
    /// A MachineSet creates no Machines while this is `true`.
    pub const DISABLE_MACHINE_CREATE: &str = "cluster.x-k8s.io/disable-machine-create";
    /// Delete this Machine first when scaling down.
    pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
    /// Name of the template an object was cloned from.
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
    /// Kind and group of the template an object was cloned from, as `Kind.group`.
    pub const CLONED_FROM_GROUP_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";
    /// Never remediate this Machine.
    pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
    /// Remediate this Machine now.
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
    /// The object is filled in by somebody else; its provider keeps its hands off.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// Somebody else, such as an autoscaler, sets the replicas.
    pub const REPLICAS_MANAGED_BY: &str = "cluster.x-k8s.io/replicas-managed-by";
    /// Do not drain the Node of this Machine.
    pub const EXCLUDE_NODE_DRAINING: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
    /// Do not wait for volumes of this Machine's Node to be detached.
    pub const EXCLUDE_WAIT_FOR_VOLUME_DETACH: &str =
        "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
    /// When the certificates on a control plane machine expire, as RFC 3339.
    pub const CERTIFICATES_EXPIRY: &str = "machine.cluster.x-k8s.io/certificates-expiry";
    /// Prefix of hooks that hold up the drain of a Machine that is deleted.
    pub const PRE_DRAIN_HOOK_PREFIX: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
    /// Prefix of hooks that hold up the removal of a Machine's infrastructure.
    pub const PRE_TERMINATE_HOOK_PREFIX: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
}

/// Points to an object in the same namespace by group, kind and name. The version is looked up from the
/// contract label on the CRD.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContractVersionedObjectReference {
    /// Kind of the object.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND))]
    pub kind: String,

    /// Name of the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// API group of the object, without a version.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub api_group: String,
}

/// Where an API server can be reached.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ApiEndpoint {
    /// Host name or address on which the API server is served.
    #[schemars(length(min = 1, max = 512))]
    pub host: Option<String>,

    /// Port on which the API server is served.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

impl ApiEndpoint {
    /// Whether both host and port are known, so that a client could connect.
    pub fn is_valid(&self) -> bool {
        self.host.as_deref().is_some_and(|host| !host.is_empty()) && self.port.is_some_and(|port| port != 0)
    }
}

/// The part of metadata that a template hands on to the objects made from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TemplateMetadata {
    /// Labels for the objects made from the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations for the objects made from the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Whether a condition is good when it is true, or bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionPolarity {
    /// True is good, as for `Ready`.
    Positive,
    /// True is bad, as for `Deleting`.
    Negative,
}

/// A condition that counts, beside the ones core knows, when readiness or availability is worked out.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionGate {
    /// Type of the condition. While the object does not have it, the gate is closed.
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_TYPE))]
    pub condition_type: String,

    /// Whether the gate opens on true (`Positive`, also when unset) or on false (`Negative`).
    pub polarity: Option<ConditionPolarity>,
}

/// How many Machines of one Kubernetes version there are.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusVersion {
    /// Kubernetes version, with its leading `v`.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,

    /// How many replicas run it.
    #[schemars(range(min = 1))]
    pub replicas: Option<i32>,
}
