//! CapstanConfig: the setup of a machine.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use super::{HostConfigEntry, MachineProbe, Proxy};
use crate::conditions::Condition;
use crate::meta::TemplateMetadata;
use crate::schema::{DNS_SUBDOMAIN, cel, immutable};

/// The setup of a machine.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "bootstrap.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "CapstanConfig",
    namespaced,
    status = "CapstanConfigStatus",
    derive = "PartialEq",
    doc = "How one machine is set up, and the bootstrap data made from it.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
        description = "Cluster it belongs to"
    ),
    printcolumn(name = "Distro", type_ = "string", json_path = ".spec.distro", description = "Distribution"),
    printcolumn(
        name = "Data secret created",
        type_ = "string",
        json_path = ".status.initialization.dataSecretCreated",
        description = "Whether the bootstrap data is there"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether it works as it should"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct CapstanConfigSpec {
    /// Kubernetes distribution of the machine: `k3s`, `rke2` or `kubeadm`. Only `k3s` is implemented; Capstan refuses
    /// the others when it makes the plan. Default: `k3s`. Immutable.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = immutable()))]
    pub distro: Distro,

    /// Format of the bootstrap data: `cloud-config` for cloud-init, or `script` for a shell script. Default:
    /// `cloud-config`.
    pub format: Option<BootstrapFormat>,

    /// Settings of the distribution, as in its own configuration file: for k3s, the keys of `config.yaml`. Capstan
    /// refuses settings that it must decide itself when it makes the plan.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256, "x-kubernetes-preserve-unknown-fields" = true))]
    pub settings: BTreeMap<String, Setting>,

    /// Files on the machine. The agent removes a file from the machine when you remove it from the list. Files that
    /// Kubernetes reads only when it starts (for k3s those below `/etc/rancher` and `/var/lib/rancher/k3s`) are written
    /// and removed immediately before Kubernetes is restarted, after the commands in `before`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 200),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"])
    )]
    pub files: Vec<File>,

    /// Commands that run once before Kubernetes is set up, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub before: Vec<Command>,

    /// Commands that run once after Kubernetes has started, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub after: Vec<Command>,

    /// Commands that run again and again on the machine while its plan is applied: the first time at once, then in their interval.
    /// They do not run while the machine is changed, or after a change has failed. The MachineReport has the result of the last
    /// run of each. A command is ended with its timeout, and when the agent ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub periodic: Vec<PeriodicCommand>,

    /// Health probes that the agent runs on the machine while its plan is applied, in addition to those of Kubernetes. The
    /// MachineReport has the result of each, and the condition `ProbesHealthy` of the Machine those that fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 24),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub probes: Vec<MachineProbe>,

    /// What is kept on the disk and what is removed when the Machine is deleted and its Host is released. Default:
    /// volumes of users are kept, everything else of Kubernetes is removed.
    pub release: Option<ReleasePolicy>,

    /// What the agent does when files, directories, software or units of its plan were changed on the machine. `Repair`: it
    /// repairs them. `Report`: it reports them in the condition `MachineAsPlanned` of the Machine, and they stay as they
    /// are until they change in the plan. `RepairInWindow`: it reports them at once, and repairs them while a maintenance window
    /// of the machine is open (`spec.rollout.windows` of the control plane, or the annotation `capstan.dev/maintenance-windows` of
    /// the Machine, and `spec.windows` of the Host); without windows, it repairs them at any time. Default: `Repair`.
    pub on_drift: Option<DriftPolicy>,

    /// HTTP proxy for Kubernetes on the machine, and for downloads by the agent. The connection of the agent to the management plane
    /// does not use it. Default: none.
    pub proxy: Option<Proxy>,

    /// Configuration of machines on Hosts with certain labels. Entries that select the Host of a machine count in their order;
    /// `spec.config` of the Host counts last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub host_config: Vec<HostConfigEntry>,
}

/// What the agent does about changes on the machine that no plan has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftPolicy {
    /// The agent repairs what was changed.
    #[default]
    Repair,
    /// The agent only reports what was changed.
    Report,
    /// The agent repairs what was changed while a maintenance window is open.
    RepairInWindow,
}

/// What is kept on the disk of a machine and what is removed when its Host is released. Volumes of users are kept
/// unless `wipe` lists them; for k3s they are in `/var/lib/rancher/k3s/storage` or in the directory of the setting
/// `default-local-storage-path`. Data outside the directories of Kubernetes is also kept unless `wipe` lists it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "minProperties" = 1,
    "x-kubernetes-validations" = cel([(
        "!has(self.keep) || !has(self.wipe) || self.keep.all(k, self.wipe.all(w, \
            k != w && !k.startsWith(w + '/') && !w.startsWith(k + '/')))",
        "keep and wipe must not overlap",
    )])
))]
pub struct ReleasePolicy {
    /// Additional paths to keep, below the directories of Kubernetes, such as
    /// `/var/lib/rancher/k3s/server/db/snapshots`. State and keys of the cluster cannot be kept. Absolute paths without
    /// `.` and `..`. Must not overlap with `wipe`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        inner(length(min = 2, max = 256), regex(pattern = r"^(/[^/\x00-\x1f\x7f]+)+$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub keep: Vec<String>,

    /// Paths to remove with their content, such as `/var/lib/rancher/k3s/storage` or `/srv/data`. Capstan refuses
    /// directories of the operating system, such as `/etc` or `/home`, when it makes the plan. A directory that
    /// contains a mount point is not removed, and the Host is quarantined. Absolute paths without `.` and `..`. Must
    /// not overlap with `keep`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        inner(length(min = 2, max = 256), regex(pattern = r"^(/[^/\x00-\x1f\x7f]+)+$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub wipe: Vec<String>,
}

/// Kubernetes distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Distro {
    /// k3s.
    #[default]
    #[serde(rename = "k3s")]
    K3s,
    /// RKE2. Not implemented.
    #[serde(rename = "rke2")]
    Rke2,
    /// Upstream Kubernetes, set up with kubeadm. Not implemented.
    #[serde(rename = "kubeadm")]
    Kubeadm,
}

/// Formats of bootstrap data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BootstrapFormat {
    /// User data for cloud-init.
    #[default]
    #[serde(rename = "cloud-config")]
    CloudConfig,
    /// A shell script.
    #[serde(rename = "script")]
    Script,
}

/// Value of a setting: any JSON value except null, which an API server drops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Setting(pub serde_json::Value);

impl JsonSchema for Setting {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Setting".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}

/// A file on a machine.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "has(self.content) != has(self.contentFrom)",
        "set exactly one of content and contentFrom",
    )])
))]
pub struct File {
    /// Absolute path of the file.
    #[schemars(length(min = 1, max = 4096), regex(pattern = r"^/([^/\x00]+/)*[^/\x00]+$"))]
    pub path: String,

    /// Content of the file. Set exactly one of `content` and `contentFrom`.
    #[schemars(length(max = 262144))]
    pub content: Option<String>,

    /// Source of the content, for example for secret content. Set exactly one of `content` and `contentFrom`.
    pub content_from: Option<FileSource>,

    /// Owner and group, each `root` or a numeric ID, as in `root:root` or `1000:1000`. Without a group, the group is
    /// the same as the owner. Default: `root`.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?$"))]
    pub owner: Option<String>,

    /// Permissions in octal, as in `0640`, from `0000` to `0777`. Default: `0600`.
    #[schemars(length(min = 3, max = 4), regex(pattern = "^[0-7]{3,4}$"))]
    pub permissions: Option<String>,
}

/// Source of the content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileSource {
    /// A key of a Secret in the same namespace.
    pub secret: SecretKey,
}

/// A key of a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKey {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Key in the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// A command to run on a machine.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Name of the command, which is used in reports. Unique in the list.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Program and arguments. The command runs without a shell.
    #[schemars(
        length(min = 1, max = 100),
        inner(length(max = 10240)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub command: Vec<String>,

    /// Timeout of the command, in seconds. Default: 300.
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: Option<i32>,
}

/// A command that runs again and again on a machine.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeriodicCommand {
    /// Name of the command, which is used in reports. Unique in the list.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Program and arguments. The command runs without a shell.
    #[schemars(
        length(min = 1, max = 100),
        inner(length(max = 10240)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub command: Vec<String>,

    /// Time from the start of one run to the start of the next, in seconds: from a minute to a year. Default: 600.
    #[schemars(range(min = 60, max = 31_622_400))]
    pub interval_seconds: Option<i32>,

    /// Timeout of a run, in seconds. A change of the machine waits until a run has ended. Default: 60.
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<i32>,
}

/// Observed state of the bootstrap data. Set by Capstan.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct CapstanConfigStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Progress of the bootstrap data.
    pub initialization: Option<CapstanConfigInitializationStatus>,

    /// Name of the Secret with the bootstrap data, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub data_secret_name: Option<String>,

    /// The plan that the machine has, without its content. Set by the control plane provider after it has written the
    /// plan Secret. The update of a machine is done when its MachineReport says that this plan was applied.
    pub plan: Option<CapstanConfigPlanStatus>,

    /// `metadata.generation` of the spec that this status describes. Set by Capstan.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
}

/// Progress of the bootstrap data.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct CapstanConfigInitializationStatus {
    /// True once the Secret with the bootstrap data exists. It stays true.
    pub data_secret_created: Option<bool>,
}

/// The plan of a machine, without its content: which plan it is, and what it was written for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapstanConfigPlanStatus {
    /// SHA-256 digest of the plan's bytes, in hexadecimal.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub digest: String,

    /// Revision of the plan. It only increases.
    #[schemars(range(min = 1))]
    pub revision: i64,

    /// SHA-256 digest of the Kubernetes version of the Machine and of the spec of the CapstanConfig that the plan
    /// implements, in hexadecimal. If it does not match them as they are now, the machine has no plan for them yet.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub setup: String,

    /// Machine ID for which the plan was written. A host that becomes another machine gets another ID.
    #[serde(rename = "machineID")]
    #[schemars(length(min = 1, max = 64))]
    pub machine_id: String,
}

/// The template for CapstanConfigs.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "bootstrap.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "CapstanConfigTemplate",
    namespaced,
    derive = "PartialEq",
    doc = "A template from which MachineSets make CapstanConfigs.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    printcolumn(
        name = "Distro",
        type_ = "string",
        json_path = ".spec.template.spec.distro",
        description = "Distribution"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct CapstanConfigTemplateSpec {
    /// The template: metadata and spec of the CapstanConfigs.
    pub template: CapstanConfigTemplateResource,
}

/// Metadata and spec of the CapstanConfigs made from a template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapstanConfigTemplateResource {
    /// Labels and annotations of the CapstanConfigs.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the CapstanConfigs.
    pub spec: CapstanConfigSpec,
}
