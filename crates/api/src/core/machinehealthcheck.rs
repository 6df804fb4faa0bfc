//! MachineHealthCheck: which machines are unhealthy, and when they are remediated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::deprecated::{Deprecated, V1Beta1Conditions};
use crate::conditions::{Condition, ConditionStatus};
use crate::schema::{CONDITION_TYPE, DNS_SUBDOMAIN, GROUP_VERSION, HEALTH_RANGE, KIND, cel, immutable};

/// Which machines are checked, which checks apply, and how unhealthy machines are remediated.
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
    /// Name of the Cluster that the MachineHealthCheck belongs to. Immutable.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// Label selector of the Machines that are checked. Must not be empty.
    #[schemars(with = "crate::schema::LabelSelectorSchema")]
    pub selector: LabelSelector,

    /// Checks that determine whether a machine is unhealthy.
    pub checks: Option<MachineHealthCheckChecks>,

    /// How unhealthy machines are remediated, and when remediation is suspended.
    pub remediation: Option<MachineHealthCheckRemediation>,
}

/// Checks that determine whether a machine is unhealthy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineHealthCheckChecks {
    /// Maximum time until the Node of a machine appears, in seconds. 0 disables the check; otherwise at least 30.
    /// Default: 600.
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

    /// Node conditions that make a machine unhealthy. One matching entry is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_node_conditions: Vec<UnhealthyNodeCondition>,

    /// Machine conditions that make a machine unhealthy. One matching entry is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
}

/// A Node condition that makes the machine unhealthy if it lasts longer than a timeout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyNodeCondition {
    /// Type of the condition, such as `Ready`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub type_: String,

    /// Unhealthy status: `True`, `False` or `Unknown`.
    #[schemars(length(min = 1))]
    pub status: String,

    /// Time that the condition must last, in seconds.
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
}

/// A Machine condition that makes the machine unhealthy if it lasts longer than a timeout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyMachineCondition {
    /// Type of the condition. Conditions that result from health checks are not allowed.
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

    /// Unhealthy status: `True`, `False` or `Unknown`.
    pub status: ConditionStatus,

    /// Time that the condition must last, in seconds.
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
}

/// How unhealthy machines are remediated, and when remediation is suspended.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineHealthCheckRemediation {
    /// Number of unhealthy machines with which remediation is still allowed. With more, remediation is suspended.
    pub trigger_if: Option<RemediationTrigger>,

    /// Template for external remediation. Default: the owner of the Machine remediates it.
    pub template_ref: Option<RemediationTemplateReference>,
}

/// Number of unhealthy machines with which remediation is still allowed.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct RemediationTrigger {
    /// Maximum number of unhealthy machines: a number, or a percentage rounded down. Default: all machines.
    #[schemars(with = "Option<crate::schema::IntOrStringSchema>")]
    pub unhealthy_less_than_or_equal_to: Option<IntOrString>,

    /// Range of the number of unhealthy machines, as in `[3-5]`. Overrides `unhealthyLessThanOrEqualTo`.
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

/// Observed state of the checked machines. Set by core.
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

    /// Number of machines that are checked.
    #[schemars(range(min = 0))]
    pub expected_machines: Option<i32>,

    /// Number of machines that are healthy.
    #[schemars(range(min = 0))]
    pub current_healthy: Option<i32>,

    /// Number of further machines that may be remediated before the limit is reached.
    #[schemars(range(min = 0))]
    pub remediations_allowed: Option<i32>,

    /// `metadata.generation` of the spec that this status describes. Set by core.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Names of the machines that are checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10000),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub targets: Vec<String>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}
