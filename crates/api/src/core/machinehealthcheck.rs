//! MachineHealthCheck: says which machines are sick and when they may be remediated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::deprecated::{Deprecated, V1Beta1Conditions};
use crate::conditions::{Condition, ConditionStatus};
use crate::schema::{CONDITION_TYPE, DNS_SUBDOMAIN, GROUP_VERSION, HEALTH_RANGE, KIND, cel, immutable};

/// Which machines are watched, what makes them unhealthy, and what follows.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "(has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || \
         (has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0)",
        "selector must not be empty: say which machines to watch",
    )])
))]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineHealthCheck",
    namespaced,
    status = "MachineHealthCheckStatus",
    derive = "PartialEq",
    doc = "Watches the health of Machines and has unhealthy ones remediated.",
    shortname = "mhc",
    shortname = "mhcs",
    category = "cluster-api",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "Cluster the object belongs to"
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".status.expectedMachines",
        description = "How many machines are watched"
    ),
    printcolumn(
        name = "Healthy",
        type_ = "integer",
        json_path = ".status.currentHealthy",
        description = "How many of them are healthy"
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Paused")].status"#,
        priority = 10,
        description = "Whether reconciliation is paused"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct MachineHealthCheckSpec {
    /// Name of the Cluster the MachineHealthCheck belongs to. Cannot be changed.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// Which Machines are watched. Must not be empty.
    pub selector: LabelSelector,

    /// What makes a machine unhealthy.
    pub checks: Option<MachineHealthCheckChecks>,

    /// What is done about unhealthy machines, and when it is held back.
    pub remediation: Option<MachineHealthCheckRemediation>,
}

/// What makes a machine unhealthy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineHealthCheckChecks {
    /// How long a machine may take until its Node appears. 600 when unset; 0 switches the check off; at least
    /// 30 otherwise.
    #[schemars(
        range(min = 0),
        extend(
            "x-kubernetes-validations" = cel([(
                "self == 0 || self >= 30",
                "must be 0, which switches the check off, or at least 30",
            )])
        )
    )]
    pub node_startup_timeout_seconds: Option<i32>,

    /// Conditions of the Node that make its machine unhealthy when they last. Any one suffices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_node_conditions: Vec<UnhealthyNodeCondition>,

    /// Conditions of the Machine that make it unhealthy when they last. Any one suffices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
}

/// A condition of a Node that makes its machine unhealthy when it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyNodeCondition {
    /// Type of the condition, such as `Ready`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub type_: String,

    /// Status that is unhealthy: `True`, `False` or `Unknown`.
    #[schemars(length(min = 1))]
    pub status: String,

    /// How long it must last.
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
}

/// A condition of a Machine that makes it unhealthy when it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyMachineCondition {
    /// Type of the condition. Those that follow from health checks cannot be used.
    #[serde(rename = "type")]
    #[schemars(
        length(min = 1, max = 316),
        regex(pattern = CONDITION_TYPE),
        extend(
            "x-kubernetes-validations" = cel([(
                "!(self in ['Ready','Available','HealthCheckSucceeded','OwnerRemediated','ExternallyRemediated'])",
                "must not be a condition that itself follows from health checks: Ready, Available, \
                 HealthCheckSucceeded, OwnerRemediated or ExternallyRemediated",
            )])
        )
    )]
    pub type_: String,

    /// Status that is unhealthy.
    pub status: ConditionStatus,

    /// How long it must last.
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
}

/// What is done about unhealthy machines, and when it is held back.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineHealthCheckRemediation {
    /// How many machines may be unhealthy for remediation to go on. Above it, something bigger is wrong and a
    /// person should look.
    pub trigger_if: Option<RemediationTrigger>,

    /// Template for external remediation. When unset, the owner of the Machine replaces the Machine.
    pub template_ref: Option<RemediationTemplateReference>,
}

/// How many machines may be unhealthy for remediation to go on.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct RemediationTrigger {
    /// At most so many: a number, or a percentage rounded down. All of them when unset.
    pub unhealthy_less_than_or_equal_to: Option<IntOrString>,

    /// Between so many, as in `[3-5]`. Counts instead of the field above when set.
    #[schemars(length(min = 1, max = 32), regex(pattern = HEALTH_RANGE))]
    pub unhealthy_in_range: Option<String>,
}

/// Reference to a template for external remediation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemediationTemplateReference {
    /// Kind of the template.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND))]
    pub kind: String,

    /// Name of the template.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Group and version of the template.
    #[schemars(length(min = 1, max = 317), regex(pattern = GROUP_VERSION))]
    pub api_version: String,
}

/// What is known of the watched machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineHealthCheckStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// How many machines are watched.
    #[schemars(range(min = 0))]
    pub expected_machines: Option<i32>,

    /// How many of them are healthy.
    #[schemars(range(min = 0))]
    pub current_healthy: Option<i32>,

    /// How many more may be remediated before the limit is reached.
    #[schemars(range(min = 0))]
    pub remediations_allowed: Option<i32>,

    /// The generation that core has seen.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Names of the watched machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10000),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub targets: Vec<String>,

    /// Fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}
