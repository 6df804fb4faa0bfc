//! Types, labels and annotations that many kinds share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use crate::schema::{CONDITION_TYPE, DNS_SUBDOMAIN, KIND};

/// The API version of the core kinds.
pub const V1BETA2: &str = "v1beta2";

/// Label keys of the contract.
pub mod labels {
    /// Name of the Cluster that an object belongs to. Core sets it on all objects that it reconciles.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Marks the Machines of a control plane. The value is empty.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    /// Name of the control plane object that owns a Machine.
    pub const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
    /// Name of the MachineSet that owns a Machine.
    pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";
    /// Name of the MachineDeployment to which a Machine belongs.
    pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
    /// Name of the MachinePool that owns a Machine.
    pub const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
    /// Selects the manager that reconciles an object, if there are several.
    pub const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
    /// Set on Nodes of interruptible machines, such as spot instances.
    pub const INTERRUPTIBLE: &str = "cluster.x-k8s.io/interruptible";
    /// Provider to which an installed object belongs.
    pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
    /// On pods: `skip` or `wait-completed`, the behavior when the Node is drained.
    pub const DRAIN: &str = "cluster.x-k8s.io/drain";
    /// Distinguishes the MachineSets of one MachineDeployment.
    pub const MACHINE_TEMPLATE_HASH: &str = "machine-template-hash";
    /// On a provider's CRD: the versions that implement the v1beta2 contract.
    pub const CONTRACT_V1BETA2: &str = "cluster.x-k8s.io/v1beta2";
    /// Set on all objects that clusterctl installs.
    pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
    /// On a CRD or on an object: clusterctl moves the objects even if no owner reference leads to a Cluster.
    pub const CLUSTERCTL_MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
    /// On a CRD: clusterctl moves the objects and everything that they own.
    pub const CLUSTERCTL_MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
}

/// Annotation keys of the contract.
pub mod annotations {
    /// Controllers do not reconcile an object that has this annotation, regardless of its value.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// clusterctl has moved the object to another management plane and is about to delete it here.
    pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
    /// A MachineSet does not create Machines while this is `true`.
    pub const DISABLE_MACHINE_CREATE: &str = "cluster.x-k8s.io/disable-machine-create";
    /// When scaling down, this Machine is deleted first.
    pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
    /// Name of the template from which an object was cloned.
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
    /// Kind and group of the template from which an object was cloned, as `Kind.group`.
    pub const CLONED_FROM_GROUP_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";
    /// This Machine is never remediated.
    pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
    /// This Machine is remediated now.
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
    /// The object is managed externally. Its provider does not reconcile it.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// The least number of Machines that an autoscaler may set.
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// The greatest number of Machines that an autoscaler may set.
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    /// On a MachineSet or its bootstrap template: preflight checks to skip before a Machine is created, separated by commas,
    /// or `All`.
    pub const SKIP_PREFLIGHT_CHECKS: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";
    /// Another program, such as an autoscaler, sets the replicas.
    pub const REPLICAS_MANAGED_BY: &str = "cluster.x-k8s.io/replicas-managed-by";
    /// The Node of this Machine is not drained.
    pub const EXCLUDE_NODE_DRAINING: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
    /// Deletion of this Machine does not wait until the volumes of its Node are detached.
    pub const EXCLUDE_WAIT_FOR_VOLUME_DETACH: &str =
        "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
    /// Time at which the certificates of a control plane machine expire, in RFC 3339 format.
    pub const CERTIFICATES_EXPIRY: &str = "machine.cluster.x-k8s.io/certificates-expiry";
    /// Prefix of hooks that block the drain of a Machine that is being deleted.
    pub const PRE_DRAIN_HOOK_PREFIX: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
    /// Prefix of hooks that block the deletion of a Machine's infrastructure.
    pub const PRE_TERMINATE_HOOK_PREFIX: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
}

/// Reference to an object in the same namespace by group, kind and name. The version comes from the contract label of
/// the CRD.
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

/// Host and port of an API server.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ApiEndpoint {
    /// Host name or IP address of the API server.
    #[schemars(length(min = 1, max = 512))]
    pub host: Option<String>,

    /// Port of the API server.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

impl ApiEndpoint {
    /// Whether both host and port are set.
    pub fn is_valid(&self) -> bool {
        self.host.as_deref().is_some_and(|host| !host.is_empty()) && self.port.is_some_and(|port| port != 0)
    }
}

/// Labels and annotations that a template sets on the objects made from it.
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

/// Which status of a condition is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionPolarity {
    /// True is good, as for `Ready`.
    Positive,
    /// True is bad, as for `Deleting`.
    Negative,
}

/// An additional condition that is required for readiness or availability.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionGate {
    /// Type of the condition. A missing condition counts as not met.
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_TYPE))]
    pub condition_type: String,

    /// `Positive`: the condition must be true. `Negative`: the condition must be false. Default: `Positive`.
    pub polarity: Option<ConditionPolarity>,
}

/// Number of Machines with a Kubernetes version.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusVersion {
    /// Kubernetes version with a leading `v`.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,

    /// Number of replicas with this version.
    #[schemars(range(min = 1))]
    pub replicas: Option<i32>,
}
