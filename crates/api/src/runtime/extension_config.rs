//! ExtensionConfig: registers a runtime extension, a server that serves hooks.

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

/// How to connect to the extension, and for which namespaces it is called.
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
    /// How to connect to the extension.
    pub client_config: ClientConfig,

    /// Label selector of the namespaces for whose objects the extension is called. Default: all namespaces.
    #[schemars(with = "Option<crate::schema::LabelSelectorSchema>")]
    pub namespace_selector: Option<LabelSelector>,

    /// Settings that are sent to the extension with every call. A ClusterClass can add and override settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// How to connect to an extension: by URL, or by a Service of the management cluster.
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
    /// URL of the extension, starting with `https://`. Its path is a prefix of the path of each hook. Use `service` for
    /// an extension that runs in the management cluster.
    #[schemars(
        length(min = 1, max = 512),
        extend("x-kubernetes-validations" = cel([(
            "isURL(self) && url(self).getScheme() == 'https'",
            "must be a URL that begins with https://, such as https://extension.example.com",
        )]))
    )]
    pub url: Option<String>,

    /// Service of the extension.
    pub service: Option<ServiceReference>,

    /// CA bundle for the extension's serving certificate, in PEM format.
    #[schemars(with = "Option<String>", length(min = 1, max = 51200), extend("format" = "byte"))]
    pub ca_bundle: Option<ByteString>,
}

/// Reference to a Service of the management cluster.
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

    /// Prefix of the path of each hook.
    #[schemars(
        length(min = 1, max = 512),
        extend("x-kubernetes-validations" = cel([(
            "self.startsWith('/') && isURL(self)",
            "must be a path that begins with a slash, such as /extension",
        )]))
    )]
    pub path: Option<String>,

    /// Port of the Service. Default: 443.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// Observed state of the extension. Set by core.
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

    /// Handlers of the extension, as discovered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 512),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub handlers: Vec<ExtensionHandler>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}

/// One handler of an extension.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionHandler {
    /// Name of the handler. In status, a dot and the name of the ExtensionConfig are appended to make it unique; the
    /// extension uses the name without them.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,

    /// Hook that the handler serves.
    pub request_hook: GroupVersionHook,

    /// Timeout of a call, in seconds. Default: 10.
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i32>,

    /// `Fail`: stop and retry if the handler cannot be called. `Ignore`: continue without it. Default: `Fail`.
    pub failure_policy: Option<FailurePolicy>,
}

/// Reference to a hook and the version of its messages.
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

/// What happens if an extension cannot be called. A response of `Failure` is never ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// Continue without the extension.
    Ignore,
    /// Stop and retry.
    #[default]
    Fail,
}
