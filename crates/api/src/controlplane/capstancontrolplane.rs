//! CapstanControlPlane: the machines of a control plane, kept and changed in place.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::bootstrap::CapstanConfigSpec;
use crate::conditions::Condition;
use crate::core::{MachineDeletionSpec, MachineNamingSpec, MachineTaint};
use crate::meta::{ConditionGate, ContractVersionedObjectReference, StatusVersion, TemplateMetadata};
use crate::schema::{cel, kubernetes_version};

/// Which control plane there should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "!has(self.replicas) || self.replicas % 2 == 1",
        "replicas must be odd: etcd gains nothing from an even number of members and loses quorum sooner",
    )])
))]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "CapstanControlPlane",
    namespaced,
    status = "CapstanControlPlaneStatus",
    derive = "PartialEq",
    doc = "The control plane of a cluster: its machines, certificates and etcd, changed in place.",
    shortname = "ccp",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
        description = "Cluster it belongs to"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#,
        description = "Whether the API server can be used"
    ),
    printcolumn(
        name = "Initialized",
        type_ = "string",
        json_path = ".status.initialization.controlPlaneInitialized",
        description = "Whether the API server has ever been reached"
    ),
    printcolumn(
        name = "Desired",
        type_ = "integer",
        json_path = ".spec.replicas",
        description = "Machines wanted"
    ),
    printcolumn(
        name = "Current",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "Machines there are"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.readyReplicas",
        description = "Machines that are ready"
    ),
    printcolumn(
        name = "Up-to-date",
        type_ = "integer",
        json_path = ".status.upToDateReplicas",
        description = "Machines that match this object"
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
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.version",
        description = "Version wanted"
    )
)]
pub struct CapstanControlPlaneSpec {
    /// How many machines are wanted; odd, because they run etcd. 1 when unset.
    #[schemars(range(min = 1, max = 99))]
    pub replicas: Option<i32>,

    /// Kubernetes version, with its leading `v`, such as `v1.36.0+k3s1`. A new version reaches the machines in
    /// place, one after the other.
    #[schemars(length(min = 1, max = 256), extend("x-kubernetes-validations" = kubernetes_version()))]
    pub version: String,

    /// What the Machines look like.
    pub machine_template: ControlPlaneMachineTemplate,

    /// How the machines are set up.
    #[serde(default)]
    pub config: CapstanConfigSpec,

    /// When and how a change reaches the machines.
    pub rollout: Option<ControlPlaneRollout>,

    /// How etcd is looked after.
    pub etcd: Option<EtcdSpec>,

    /// How machines whose health check has failed are healed in place: those of the control plane and workers. With
    /// defaults when unset.
    pub healing: Option<HealingSpec>,

    /// How unhealthy machines are replaced, where spec.rollout.strategy.type allows that.
    pub remediation: Option<ControlPlaneRemediation>,

    /// How new Machines are named.
    pub machine_naming: Option<MachineNamingSpec>,
}

/// What the Machines of a control plane look like.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlPlaneMachineTemplate {
    /// Labels and annotations of the Machines.
    pub metadata: Option<TemplateMetadata>,

    /// What the Machines' specs take over. Changes reach existing Machines in place.
    pub spec: ControlPlaneMachineTemplateSpec,
}

/// What the specs of a control plane's Machines take over.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineTemplateSpec {
    /// Template of the infrastructure machines.
    pub infrastructure_ref: ContractVersionedObjectReference,

    /// More conditions that must hold before a machine is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// How patient the deletion of a machine is.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints for the machines' Nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
}

/// When and how a change reaches the machines of a control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneRollout {
    /// Once this time has passed, every machine that was set up before it is restarted in place, or replaced if
    /// that is the rollout strategy.
    pub after: Option<Time>,

    /// What may happen to a machine that does not match.
    pub strategy: Option<ControlPlaneRolloutStrategy>,
}

/// What may happen to a machine that does not match.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneRolloutStrategy {
    /// Whether machines are changed in place or replaced. Holds for every way of losing a machine: a change that cannot be
    /// made in place, a failed health check that no step of spec.healing has cured, and scaling down to fewer machines than
    /// those without data.
    #[serde(rename = "type")]
    pub type_: ControlPlaneRolloutStrategyType,
}

/// Ways to bring a change to a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ControlPlaneRolloutStrategyType {
    /// In place. A change that cannot be made in place is refused, and nothing is touched.
    #[default]
    InPlace,
    /// In place where that is possible; otherwise the machine is replaced, after another has taken its part.
    InPlaceOrReplace,
}

/// How etcd is looked after.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct EtcdSpec {
    /// When snapshots are taken and how many are kept.
    pub snapshots: Option<EtcdSnapshots>,
}

/// When snapshots of etcd are taken and how many are kept.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct EtcdSnapshots {
    /// Take one before every change of version. True when unset.
    pub before_upgrade: Option<bool>,

    /// How many to keep on each machine. 5 when unset.
    #[schemars(range(min = 1, max = 1000))]
    pub retention: Option<i32>,
}

/// How machines whose health check has failed are healed in place: they are given time, Kubernetes is restarted, the plan is
/// carried out again, the machine is rebooted, and then a person is asked.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HealingSpec {
    /// How long an unhealthy machine is given to recover by itself before the first step. 0 when unset: the health check has
    /// waited already.
    #[schemars(range(min = 0, max = 86400))]
    pub wait_seconds: Option<i32>,

    /// What is done, one step after the other, until the machine is healthy. RestartKubernetes, ReapplyPlan and Reboot when
    /// unset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 8))]
    pub steps: Vec<HealingStep>,

    /// How many machines of the cluster are healed at a time. 1 when unset; with 0 no machine is healed, and a person is
    /// asked at once.
    #[schemars(range(min = 0, max = 1000))]
    pub max_in_flight: Option<i32>,

    /// For how long a machine's agent need not be heard of before the machine counts as silent: nothing is done on it, and
    /// changes of other workers do not wait for it any longer. 600 when unset.
    #[schemars(range(min = 60, max = 86400))]
    pub silent_after_seconds: Option<i32>,

    /// For how long a machine must stay healthy before its next illness begins with the first step again. 3600 when unset.
    #[schemars(range(min = 0, max = 604800))]
    pub min_healthy_period_seconds: Option<i32>,
}

/// One step of healing.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealingStep {
    /// What is done.
    #[serde(rename = "type")]
    pub type_: HealingStepType,

    /// How long the machine has to become healthy before the next step. When unset 300 for RestartKubernetes, 600 for
    /// ReapplyPlan and 900 for Reboot.
    #[schemars(range(min = 10, max = 86400))]
    pub timeout_seconds: Option<i32>,
}

/// What can be done to heal a machine in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HealingStepType {
    /// Kubernetes on the machine is restarted.
    RestartKubernetes,
    /// Every step of the machine's plan is carried out again, so that what was changed by hand is put right.
    ReapplyPlan,
    /// The machine is rebooted.
    Reboot,
}

impl HealingStepType {
    /// All of them, in the default order.
    pub const ALL: [Self; 3] = [Self::RestartKubernetes, Self::ReapplyPlan, Self::Reboot];
}

/// How unhealthy machines of a control plane are replaced.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneRemediation {
    /// How often a replacement that is itself unhealthy is replaced again. No limit when unset.
    #[schemars(range(min = 0))]
    pub max_retry: Option<i32>,

    /// How long to wait between two such tries.
    #[schemars(range(min = 0))]
    pub retry_period_seconds: Option<i32>,

    /// After how long a healthy replacement counts as a success. 3600 when unset.
    #[schemars(range(min = 0))]
    pub min_healthy_period_seconds: Option<i32>,
}

/// What is known of the control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct CapstanControlPlaneStatus {
    /// What was observed, one entry for each type of condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// How far the first provisioning has come.
    pub initialization: Option<ControlPlaneInitializationStatus>,

    /// Selector of the Machines as text, for the scale subresource.
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,

    /// How many machines there are.
    pub replicas: Option<i32>,

    /// How many of them are Ready.
    pub ready_replicas: Option<i32>,

    /// How many of them are Available.
    pub available_replicas: Option<i32>,

    /// How many of them are UpToDate.
    pub up_to_date_replicas: Option<i32>,

    /// Kubernetes versions of the machines, oldest first, with how many run each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
    )]
    pub versions: Vec<StatusVersion>,

    /// The generation that Capstan has seen.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
}

/// How far the first provisioning of a control plane has come.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneInitializationStatus {
    /// True once the API server has been reached with the kubeconfig. Stays true.
    pub control_plane_initialized: Option<bool>,
}
