//! ClusterClass: the shape of many clusters, with templates, variables and patches.

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

/// The shape of clusters.
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
    /// More conditions that must hold before a cluster is Available. A Cluster with a list of its own does
    /// not use this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub availability_gates: Vec<ConditionGate>,

    /// The infrastructure that a whole cluster shares.
    pub infrastructure: InfrastructureClass,

    /// The control plane.
    pub control_plane: ControlPlaneClass,

    /// The kinds of workers that clusters can have.
    pub workers: Option<WorkersClass>,

    /// What can be set in each cluster, and used by patches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub variables: Vec<ClusterClassVariable>,

    /// What is changed in the templates for each cluster, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub patches: Vec<ClusterClassPatch>,

    /// How clusters are upgraded.
    pub upgrade: Option<ClusterClassUpgrade>,

    /// Kubernetes versions that clusters can have, oldest first and with no minor version left out. An upgrade
    /// over several minor versions goes through them. Any version when unset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub kubernetes_versions: Vec<String>,
}

/// The infrastructure that a whole cluster shares.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureClass {
    /// Template of the infrastructure provider's cluster object. Its kind and group cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = same_kind()))]
    pub template_ref: ClusterClassTemplateReference,

    /// How the object made from the template is named.
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

    /// Template of the control plane provider's object. Its kind and group cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = same_kind()))]
    pub template_ref: ClusterClassTemplateReference,

    /// The machines, for control planes that run on machines.
    pub machine_infrastructure: Option<ClassInfrastructureTemplate>,

    /// How the health of the machines is watched.
    pub health_check: Option<ClassHealthCheck<MachineHealthCheckRemediation>>,

    /// How the object made from the template is named.
    pub naming: Option<ClassNamingSpec>,

    /// Timeouts for the steps of the deletion of Machines.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints for the Nodes, beside those that others put there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,

    /// More conditions that must hold before a machine is Ready. A Cluster with a list of its own does not use
    /// this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,
}

/// Points to a template in the namespace of the ClusterClass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClassTemplateReference {
    /// Kind of the template, which ends in `Template`.
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

/// The template of a machine's infrastructure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassInfrastructureTemplate {
    /// Template of the infrastructure provider's object. Its kind and group cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = same_kind()))]
    pub template_ref: ClusterClassTemplateReference,
}

/// Clusters that exist keep the objects they have, so another template must make objects of the same kind.
fn same_kind() -> serde_json::Value {
    cel([(
        "self.kind == oldSelf.kind && self.apiVersion.split('/')[0] == oldSelf.apiVersion.split('/')[0]",
        "kind and the group in apiVersion cannot be changed; make another ClusterClass",
    )])
}

/// How objects made from a template are named.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClassNamingSpec {
    /// A Go template for the name. It may use `.cluster.name`, `.random`, which are five characters that keep
    /// names apart, and for workers `.machineDeployment.topologyName` or `.machinePool.topologyName`. Names
    /// over 63 characters are cut. When unset, the name is made of all of these.
    #[schemars(length(min = 1, max = 1024))]
    pub template: Option<String>,
}

/// How the health of machines is watched.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClassHealthCheck<Remediation> {
    /// What makes a machine unhealthy.
    pub checks: Option<MachineHealthCheckChecks>,

    /// What is done about unhealthy machines, and when it is held back.
    pub remediation: Option<Remediation>,
}

/// How clusters are upgraded.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterClassUpgrade {
    /// Runtime extensions that have a say in upgrades.
    pub external: Option<ClusterClassUpgradeExternal>,
}

/// Runtime extensions that have a say in upgrades.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterClassUpgradeExternal {
    /// Name of the extension that is asked which versions an upgrade goes through.
    #[schemars(length(min = 1, max = 512))]
    pub generate_upgrade_plan_extension: Option<String>,
}

/// What is known of the class.
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

    /// All variables of the class: its own, and those that runtime extensions brought in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    pub variables: Vec<ClusterClassStatusVariable>,

    /// The generation that core has seen.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}
