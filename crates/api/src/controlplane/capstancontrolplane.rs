//! CapstanControlPlane: the machines of a control plane, which are kept and changed in place.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::bootstrap::CapstanConfigSpec;
use crate::conditions::Condition;
use crate::core::{MachineDeletionSpec, MachineNamingSpec, MachineTaint};
use crate::meta::{ConditionGate, ContractVersionedObjectReference, StatusVersion, TemplateMetadata};
use crate::schema::{MAINTENANCE_WINDOW, cel, kubernetes_version};

/// The desired state of a control plane.
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
    /// Number of control plane machines. Must be odd, because they run etcd. Default: 1.
    #[schemars(range(min = 1, max = 99))]
    pub replicas: Option<i32>,

    /// Kubernetes version with a leading `v`, such as `v1.36.0+k3s1`. Capstan changes the version in place, one machine
    /// after the other.
    #[schemars(length(min = 1, max = 256), extend("x-kubernetes-validations" = kubernetes_version()))]
    pub version: String,

    /// Template of the Machines.
    pub machine_template: ControlPlaneMachineTemplate,

    /// Setup of the machines.
    #[serde(default)]
    pub config: CapstanConfigSpec,

    /// When and how changes are rolled out to the machines.
    pub rollout: Option<ControlPlaneRollout>,

    /// Settings of etcd.
    pub etcd: Option<EtcdSpec>,

    /// How Capstan heals control plane machines and workers in place when their health check has failed. Default: the
    /// defaults of its fields.
    pub healing: Option<HealingSpec>,

    /// Limits for the replacement of unhealthy machines. Used only if `spec.rollout.strategy.type` allows replacement.
    pub remediation: Option<ControlPlaneRemediation>,

    /// Naming of new Machines.
    pub machine_naming: Option<MachineNamingSpec>,
}

/// Template of the Machines of a control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlPlaneMachineTemplate {
    /// Labels and annotations of the Machines.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the Machines. Capstan makes changes to existing Machines in place.
    pub spec: ControlPlaneMachineTemplateSpec,
}

/// Spec of the Machines of a control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineTemplateSpec {
    /// Template of the infrastructure machines, such as a HostMachineTemplate.
    pub infrastructure_ref: ContractVersionedObjectReference,

    /// Additional conditions of the Machine that must be met before it is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// Timeouts for the steps of the deletion of a Machine.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints of the machines' Nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
}

/// When and how changes are rolled out to the machines of a control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneRollout {
    /// After this time (RFC 3339), Capstan restarts Kubernetes in place on every control plane machine that was created
    /// before it.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub after: Option<Time>,

    /// Whether a machine may be replaced when a change cannot be made in place.
    pub strategy: Option<ControlPlaneRolloutStrategy>,

    /// Maintenance windows: Capstan drains machines of the cluster and restarts Kubernetes on them for a change only while one is
    /// open, on workers too. Each is `DAYS HH:MM-HH:MM TIME-ZONE`, such as `Sat,Sun 02:00-06:00 Europe/Berlin`, `Mon-Fri
    /// 22:00-04:00` (in UTC, until the next day) or `daily 01:00-05:00 UTC`. Healing, the first start of a machine and
    /// machines that are down do not wait. The annotation `capstan.dev/maintenance-windows` of a Machine replaces them for this
    /// machine. A machine on a Host with `spec.windows` also waits for those. Default: at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 16),
        inner(length(min = 15, max = 128), regex(pattern = MAINTENANCE_WINDOW)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub windows: Vec<String>,

    /// When the agents of the machines of the cluster are upgraded, on workers too. `Automatic`: after an upgrade of Capstan, a few
    /// machines at a time, and none after a machine has rejected the new agent. `Manual`: every machine keeps the agent that it has;
    /// set `Automatic` when the agents are to be upgraded. Kubernetes is not restarted either way. Default: `Automatic`.
    pub agents: Option<AgentRollout>,
}

/// When the agents of machines are upgraded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentRollout {
    /// After an upgrade of Capstan, a few machines at a time.
    #[default]
    Automatic,
    /// Not at all: every machine keeps the agent that it has.
    Manual,
}

/// Whether a machine may be replaced when a change cannot be made in place.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneRolloutStrategy {
    /// `InPlace`: machines are changed in place only; Capstan refuses a change that cannot be made in place and leaves
    /// the machines unchanged. `InPlaceOrReplace`: a machine is replaced if there is no way in place. The type also
    /// applies to failed health checks that no step of `spec.healing` resolves, and to scaling down to fewer machines
    /// than those without data.
    #[serde(rename = "type")]
    pub type_: ControlPlaneRolloutStrategyType,
}

/// How a change is made to a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ControlPlaneRolloutStrategyType {
    /// In place only. Capstan refuses a change that cannot be made in place, and leaves the machines unchanged.
    #[default]
    InPlace,
    /// In place if possible. Otherwise the machine is replaced, after another one has taken over its role.
    InPlaceOrReplace,
}

/// Settings of etcd.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct EtcdSpec {
    /// When Capstan takes snapshots of etcd, and how many it keeps.
    pub snapshots: Option<EtcdSnapshots>,
}

/// When Capstan takes snapshots of etcd, and how many it keeps.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct EtcdSnapshots {
    /// If true, Capstan takes a snapshot before every change of the version. Default: true.
    pub before_upgrade: Option<bool>,

    /// Number of snapshots kept on each machine. Default: 5.
    #[schemars(range(min = 1, max = 1000))]
    pub retention: Option<i32>,
}

/// How Capstan heals machines whose health check has failed, in place: it waits, restarts Kubernetes, applies the plan
/// again and reboots the machine. If no step helps, a person must act.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HealingSpec {
    /// Time that an unhealthy machine has to recover before the first step, in seconds. Default: 0, because the health
    /// check has its own timeout.
    #[schemars(range(min = 0, max = 86400))]
    pub wait_seconds: Option<i32>,

    /// Steps that Capstan runs in this order until the machine is healthy. Default: `RestartKubernetes`, `ReapplyPlan`,
    /// `Reboot`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 8))]
    pub steps: Vec<HealingStep>,

    /// Maximum number of machines of the cluster that are healed at the same time. With 0 no machine is healed, and a
    /// person must act. Default: 1.
    #[schemars(range(min = 0, max = 1000))]
    pub max_in_flight: Option<i32>,

    /// Time without a Lease renewal after which the agent of a machine counts as silent, in seconds. Capstan runs no
    /// step on a silent machine, and changes of other workers do not wait for it. Default: 600.
    #[schemars(range(min = 60, max = 86400))]
    pub silent_after_seconds: Option<i32>,

    /// Time that a machine must stay healthy, in seconds, before healing begins with the first step again. Default:
    /// 3600.
    #[schemars(range(min = 0, max = 604800))]
    pub min_healthy_period_seconds: Option<i32>,
}

/// One step of healing.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealingStep {
    /// `RestartKubernetes`: restart Kubernetes on the machine. `ReapplyPlan`: run every step of the machine's plan
    /// again, which reverts manual changes. `Reboot`: reboot the machine.
    #[serde(rename = "type")]
    pub type_: HealingStepType,

    /// Time that the machine has to become healthy before the next step, in seconds. Default: 300 for
    /// `RestartKubernetes`, 600 for `ReapplyPlan`, 900 for `Reboot`.
    #[schemars(range(min = 10, max = 86400))]
    pub timeout_seconds: Option<i32>,
}

/// Steps that heal a machine in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HealingStepType {
    /// Restart Kubernetes on the machine.
    RestartKubernetes,
    /// Run every step of the machine's plan again, which reverts manual changes.
    ReapplyPlan,
    /// Reboot the machine.
    Reboot,
}

impl HealingStepType {
    /// All steps, in the default order.
    pub const ALL: [Self; 3] = [Self::RestartKubernetes, Self::ReapplyPlan, Self::Reboot];
}

/// Limits for the replacement of unhealthy control plane machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneRemediation {
    /// Maximum number of consecutive retries, when a replacement is itself unhealthy. Default: no limit.
    #[schemars(range(min = 0))]
    pub max_retry: Option<i32>,

    /// Minimum time between two replacements in a series of retries, in seconds. Default: 0.
    #[schemars(range(min = 0))]
    pub retry_period_seconds: Option<i32>,

    /// Time after a replacement, in seconds, after which another replacement no longer counts as a retry. Default:
    /// 3600.
    #[schemars(range(min = 0))]
    pub min_healthy_period_seconds: Option<i32>,
}

/// Observed state of the control plane. Set by Capstan.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct CapstanControlPlaneStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Progress of the first provisioning. Set by the controllers.
    pub initialization: Option<ControlPlaneInitializationStatus>,

    /// Label selector of the Machines in string form, for the scale subresource.
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,

    /// Number of machines.
    pub replicas: Option<i32>,

    /// Number of machines that are Ready.
    pub ready_replicas: Option<i32>,

    /// Number of machines that are Available.
    pub available_replicas: Option<i32>,

    /// Number of machines that are UpToDate.
    pub up_to_date_replicas: Option<i32>,

    /// Kubernetes versions of the machines, oldest first, with the number of machines of each version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
    )]
    pub versions: Vec<StatusVersion>,

    /// `metadata.generation` of the spec that this status describes. Set by Capstan.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
}

/// Progress of the first provisioning of a control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneInitializationStatus {
    /// True once Capstan has connected to the API server with the kubeconfig. It stays true.
    pub control_plane_initialized: Option<bool>,
}
