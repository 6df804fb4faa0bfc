//! ExtensionConfig: registers a server that serves runtime hooks.

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use crate::conditions::Condition;
use crate::core::{Deprecated, V1Beta1Conditions};
use crate::schema::cel;

/// Where the extension is, and for what it is called.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel([(
    "!has(self.namespaceSelector) || !has(self.namespaceSelector.matchExpressions) || \
     self.namespaceSelector.matchExpressions.all(e, e.operator in ['In', 'NotIn'] \
     ? has(e.values) && size(e.values) > 0 \
     : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",
    "namespaceSelector.matchExpressions: In and NotIn need values, Exists and DoesNotExist take none, and \
     there are no other operators",
)])))]
#[kube(
    group = "runtime.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "ExtensionConfig",
    status = "ExtensionConfigStatus",
    derive = "PartialEq",
    doc = "Registers a server whose runtime hooks are called.",
    validation = Rule::new("size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')").message(
        "metadata.name must have at most 63 characters and no dots: it becomes a part of handler names",
    ),
    shortname = "ext",
    category = "cluster-api",
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Paused")].status"#,
        priority = 10,
        description = "Whether reconciliation is paused"
    ),
    printcolumn(
        name = "Discovered",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Discovered")].status"#,
        description = "Whether the extension has said which hooks it serves"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct ExtensionConfigSpec {
    /// How the extension is reached.
    pub client_config: ClientConfig,

    /// The extension is called for objects in these namespaces only, by the labels of the namespace. Empty
    /// or unset: for all.
    pub namespace_selector: Option<LabelSelector>,

    /// Handed to the extension with every call. A ClusterClass may add to them and override them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// How an extension is reached: by URL, or as a Service of the management cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "minProperties" = 1,
    "x-kubernetes-validations" = cel([(
        "has(self.url) != has(self.service)",
        "set either url or service, and not both",
    )])
))]
pub struct ClientConfig {
    /// Address of the extension, beginning with `https://`. A path comes before the path of each hook. For
    /// an extension that runs in the management cluster, use `service`.
    #[schemars(
        length(min = 1, max = 512),
        extend("x-kubernetes-validations" = cel([(
            "isURL(self) && url(self).getScheme() == 'https'",
            "must be a URL that begins with https://, such as https://extension.example.com",
        )]))
    )]
    pub url: Option<String>,

    /// The Service behind which the extension runs.
    pub service: Option<ServiceReference>,

    /// Certificates, as PEM, that vouch for the extension's serving certificate.
    #[schemars(with = "Option<String>", length(min = 1, max = 51200), extend("format" = "byte"))]
    pub ca_bundle: Option<ByteString>,
}

/// Names a Service of the management cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceReference {
    /// Namespace of the Service.
    #[schemars(
        length(min = 1, max = 63),
        extend("x-kubernetes-validations" = cel([(
            "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "must be the name of a namespace: lower case letters, digits and hyphens",
        )]))
    )]
    pub namespace: String,

    /// Name of the Service.
    #[schemars(
        length(min = 1, max = 63),
        extend("x-kubernetes-validations" = cel([(
            "self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "must be the name of a Service: lower case letters, digits and hyphens, a letter first",
        )]))
    )]
    pub name: String,

    /// Path that comes before the path of each hook.
    #[schemars(
        length(min = 1, max = 512),
        extend("x-kubernetes-validations" = cel([(
            "self.startsWith('/') && isURL(self)",
            "must be a path that begins with a slash, such as /extension",
        )]))
    )]
    pub path: Option<String>,

    /// Port of the Service. 443 when unset.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// What is known of the extension.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ExtensionConfigStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// The handlers that the extension has, as it said when asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 512),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub handlers: Vec<ExtensionHandler>,

    /// Fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}

/// One handler of an extension: the hook it serves and how it wants to be called.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionHandler {
    /// Name of the handler. In a status it ends with a dot and the name of the ExtensionConfig, which makes
    /// it unique; the extension itself knows it without.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,

    /// The hook it serves.
    pub request_hook: GroupVersionHook,

    /// How long a call may take. 10 seconds when unset.
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i32>,

    /// What follows when the handler cannot be called. `Fail` when unset.
    pub failure_policy: Option<FailurePolicy>,
}

/// Names a hook and the version of its messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersionHook {
    /// Group and version of the hook.
    #[schemars(length(min = 1, max = 512))]
    pub api_version: String,

    /// Name of the hook.
    #[schemars(length(min = 1, max = 256))]
    pub hook: String,
}

/// What follows when an extension cannot be called. `Fail` when unset. An answer of `Failure` is never
/// ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// Go on as if there were no extension.
    Ignore,
    /// Stop and try again.
    #[default]
    Fail,
}
