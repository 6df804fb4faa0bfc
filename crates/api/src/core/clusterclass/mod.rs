//! ClusterClass: a template of clusters, with templates, variables and patches.

mod patches;
mod variables;
mod workers;

pub use patches::*;
pub use variables::*;
pub use workers::*;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::deprecated::{Deprecated, V1Beta1Conditions};
use super::{MachineDeletionSpec, MachineHealthCheckChecks, MachineHealthCheckRemediation, MachineTaint};
use crate::conditions::Condition;
use crate::meta::{ConditionGate, TemplateMetadata};
use crate::schema::{DNS_SUBDOMAIN, GROUP_VERSION, KIND, cel};

/// Template of clusters.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "ClusterClass",
    plural = "clusterclasses",
    namespaced,
    status = "ClusterClassStatus",
    derive = "PartialEq",
    doc = "A shape that many clusters have in common. Clusters name it in spec.topology.",
    shortname = "cc",
    category = "cluster-api",
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Paused")].status"#,
        priority = 10,
        description = "Whether reconciliation is paused"
    ),
    printcolumn(
        name = "Variables Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="VariablesReady")].status"#,
        description = "Whether the variables are known and sound"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct ClusterClassSpec {
    /// Additional conditions that must be met before a cluster is Available. Used for Clusters without their own list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub availability_gates: Vec<ConditionGate>,

    /// Infrastructure that a whole cluster shares.
    pub infrastructure: InfrastructureClass,

    /// The control plane.
    pub control_plane: ControlPlaneClass,

    /// Classes of workers that clusters can have.
    pub workers: Option<WorkersClass>,

    /// Variables, which each cluster can set and patches can use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub variables: Vec<ClusterClassVariable>,

    /// Patches of the templates for each cluster, applied in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub patches: Vec<ClusterClassPatch>,

    /// Settings of upgrades.
    pub upgrade: Option<ClusterClassUpgrade>,

    /// Kubernetes versions that clusters can have, oldest first, without gaps between minor versions. An upgrade over
    /// several minor versions goes through them. Default: any version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub kubernetes_versions: Vec<String>,
}

/// Infrastructure that a whole cluster shares.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureClass {
    /// Template of the object of the infrastructure provider for the cluster. Its kind and group are immutable.
    #[schemars(extend("x-kubernetes-validations" = same_kind()))]
    pub template_ref: ClusterClassTemplateReference,

    /// Naming of the object that is created from the template.
    pub naming: Option<ClassNamingSpec>,
}

/// The control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([
        (
            "has(self.machineInfrastructure) || !has(self.healthCheck)",
            "healthCheck needs machineInfrastructure: only a control plane on machines can be watched",
        ),
        (
            "has(self.machineInfrastructure) == has(oldSelf.machineInfrastructure)",
            "machineInfrastructure can be neither added nor removed; make another ClusterClass",
        ),
    ])
))]
pub struct ControlPlaneClass {
    /// Labels and annotations of the control plane and its machines.
    pub metadata: Option<TemplateMetadata>,

    /// Template of the object of the control plane provider. Its kind and group are immutable.
    #[schemars(extend("x-kubernetes-validations" = same_kind()))]
    pub template_ref: ClusterClassTemplateReference,

    /// Template of the machines, for control planes that run on machines.
    pub machine_infrastructure: Option<ClassInfrastructureTemplate>,

    /// Health check of the machines.
    pub health_check: Option<ClassHealthCheck<MachineHealthCheckRemediation>>,

    /// Naming of the object that is created from the template.
    pub naming: Option<ClassNamingSpec>,

    /// Timeouts for the steps of the deletion of Machines.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints that core sets on the Nodes. Taints from other sources are not changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,

    /// Additional conditions that must be met before a machine is Ready. Used for Clusters without their own list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,
}

/// Reference to a template in the namespace of the ClusterClass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClassTemplateReference {
    /// Kind of the template. It ends with `Template`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = KIND),
        extend(
            "x-kubernetes-validations" = cel([(
                "self.endsWith('Template') && self != 'Template'",
                "must be the kind of a template, such as HostMachineTemplate",
            )])
        )
    )]
    pub kind: String,

    /// Name of the template.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Group and version of the template.
    #[schemars(length(min = 1, max = 317), regex(pattern = GROUP_VERSION))]
    pub api_version: String,
}

/// Template of the infrastructure of machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassInfrastructureTemplate {
    /// Template of the object of the infrastructure provider. Its kind and group are immutable.
    #[schemars(extend("x-kubernetes-validations" = same_kind()))]
    pub template_ref: ClusterClassTemplateReference,
}

/// CEL rule: existing clusters keep their objects, so another template must have the same kind.
fn same_kind() -> serde_json::Value {
    cel([(
        "self.kind == oldSelf.kind && self.apiVersion.split('/')[0] == oldSelf.apiVersion.split('/')[0]",
        "kind and the group in apiVersion cannot be changed; make another ClusterClass",
    )])
}

/// Naming of objects that are created from a template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClassNamingSpec {
    /// Go template of the name. It can use `.cluster.name`, `.random` (five random characters), and for workers
    /// `.machineDeployment.topologyName` or `.machinePool.topologyName`. Longer names than 63 characters are truncated.
    /// Default: all of these, joined.
    #[schemars(length(min = 1, max = 1024))]
    pub template: Option<String>,
}

/// Health check of machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClassHealthCheck<Remediation> {
    /// Checks that determine whether a machine is unhealthy.
    pub checks: Option<MachineHealthCheckChecks>,

    /// How unhealthy machines are remediated, and when remediation is suspended.
    pub remediation: Option<Remediation>,
}

/// Settings of upgrades.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterClassUpgrade {
    /// Runtime extensions for upgrades.
    pub external: Option<ClusterClassUpgradeExternal>,
}

/// Runtime extensions for upgrades.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterClassUpgradeExternal {
    /// Name of the extension that generates the upgrade plan: the versions that an upgrade goes through.
    #[schemars(length(min = 1, max = 512))]
    pub generate_upgrade_plan_extension: Option<String>,
}

/// Observed state of the class. Set by core.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterClassStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// All variables of the class: its own, and those from runtime extensions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub variables: Vec<ClusterClassStatusVariable>,

    /// `metadata.generation` of the spec that this status describes. Set by core.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}
