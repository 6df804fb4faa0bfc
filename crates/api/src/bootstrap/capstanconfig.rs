//! CapstanConfig: how a machine is set up.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use crate::conditions::Condition;
use crate::meta::TemplateMetadata;
use crate::schema::{DNS_SUBDOMAIN, cel, immutable};

/// How a machine is set up.
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
    /// Which distribution of Kubernetes runs on the machine. Cannot be changed.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = immutable()))]
    pub distro: Distro,

    /// In which form the bootstrap data is handed to the machine.
    pub format: Option<BootstrapFormat>,

    /// Settings of the distribution, as they stand in its own configuration file: for k3s and RKE2, keys of
    /// `config.yaml`. Settings that Capstan itself must decide are refused when the plan is made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256, "x-kubernetes-preserve-unknown-fields" = true))]
    pub settings: BTreeMap<String, Setting>,

    /// Files to put on the machine. A file that is taken out of the list is taken off the machine. Files that Kubernetes
    /// reads only when it starts, for k3s those below `/etc/rancher` and `/var/lib/rancher/k3s`, are written and removed
    /// right before it is started again, after the commands in `before`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 200),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"])
    )]
    pub files: Vec<File>,

    /// Commands to run once before Kubernetes is set up, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub before: Vec<Command>,

    /// Commands to run once after Kubernetes is up, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub after: Vec<Command>,

    /// What stays on the disk of the machine, and what is removed from it, when the Machine is deleted and its host is
    /// released. When unset, volumes of users stay and everything else of Kubernetes is removed.
    pub release: Option<ReleasePolicy>,
}

/// What stays on the disk of a machine, and what is removed from it, when its host is released. Volumes of users, which for
/// k3s are in `/var/lib/rancher/k3s/storage` or in the folder that the setting `default-local-storage-path` names, stay
/// unless `wipe` names them. Data in folders outside those of Kubernetes stays in the same way.
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
    /// More paths that stay, below the folders of Kubernetes, such as `/var/lib/rancher/k3s/server/db/snapshots`. State and
    /// keys of the cluster cannot be kept. Absolute paths without `.` and `..`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        inner(length(min = 2, max = 256), regex(pattern = r"^(/[^/\x00-\x1f\x7f]+)+$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub keep: Vec<String>,

    /// Paths that are removed with everything in them, such as `/var/lib/rancher/k3s/storage` or `/srv/data`. Folders of the
    /// operating system, such as `/etc` or `/home`, are refused when the plan is made. A folder in which something is still
    /// mounted is not removed, and the host is quarantined. Absolute paths without `.` and `..`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        inner(length(min = 2, max = 256), regex(pattern = r"^(/[^/\x00-\x1f\x7f]+)+$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub wipe: Vec<String>,
}

/// Distributions of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Distro {
    /// k3s: one small binary.
    #[default]
    #[serde(rename = "k3s")]
    K3s,
    /// RKE2.
    #[serde(rename = "rke2")]
    Rke2,
    /// Upstream Kubernetes, set up with kubeadm.
    #[serde(rename = "kubeadm")]
    Kubeadm,
}

/// Forms of bootstrap data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BootstrapFormat {
    /// For cloud-init.
    #[default]
    #[serde(rename = "cloud-config")]
    CloudConfig,
    /// A shell script.
    #[serde(rename = "script")]
    Script,
}

/// The value of a setting: any JSON, but an API server drops a null as if the setting were not there.
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
    /// Absolute path.
    #[schemars(length(min = 1, max = 4096), regex(pattern = r"^/([^/\x00]+/)*[^/\x00]+$"))]
    pub path: String,

    /// Content of the file.
    #[schemars(length(max = 262144))]
    pub content: Option<String>,

    /// Where to read the content of the file from, if it is secret.
    pub content_from: Option<FileSource>,

    /// Owner and group, as in `root:root`.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?$"))]
    pub owner: Option<String>,

    /// Permissions in octal, as in `0640`. 0600 when unset.
    #[schemars(length(min = 3, max = 4), regex(pattern = "^[0-7]{3,4}$"))]
    pub permissions: Option<String>,
}

/// Where the content of a file comes from.
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
    /// A name for it, which reports use.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// The program and its arguments. It is run without a shell.
    #[schemars(
        length(min = 1, max = 100),
        inner(length(max = 10240)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub command: Vec<String>,

    /// How long it may take. 300 when unset.
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: Option<i32>,
}

/// What is known of the bootstrap data.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct CapstanConfigStatus {
    /// What was observed, one entry for each type of condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// How far the bootstrap data has come.
    pub initialization: Option<CapstanConfigInitializationStatus>,

    /// Name of the Secret with the bootstrap data.
    #[schemars(length(min = 1, max = 253))]
    pub data_secret_name: Option<String>,

    /// The generation that Capstan has seen.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
}

/// How far the bootstrap data has come.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct CapstanConfigInitializationStatus {
    /// True once the Secret with the bootstrap data is there. Stays true.
    pub data_secret_created: Option<bool>,
}

/// What CapstanConfigs made from the template look like.
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
    /// The CapstanConfig to make.
    pub template: CapstanConfigTemplateResource,
}

/// The CapstanConfig to make.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapstanConfigTemplateResource {
    /// Labels and annotations of the CapstanConfig.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the CapstanConfig.
    pub spec: CapstanConfigSpec,
}
