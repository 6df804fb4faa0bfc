//! Provider: one installed provider. All Providers are the inventory.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// An installed provider and its version.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "clusterctl.cluster.x-k8s.io",
    version = "v1alpha3",
    kind = "Provider",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "A provider that is installed in the namespace of this object.",
    label("clusterctl.cluster.x-k8s.io/core", "inventory"),
    category = "cluster-api",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    ),
    printcolumn(name = "Type", type_ = "string", json_path = ".type", description = "Type of the provider"),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".providerName",
        description = "Name of the provider"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".version",
        description = "Version that is installed"
    )
)]
pub struct ProviderSpec {
    /// Name of the provider, such as `kubeadm`.
    pub provider_name: Option<String>,

    /// Type of the provider, such as `BootstrapProvider`.
    #[serde(rename = "type")]
    pub type_: Option<String>,

    /// Installed version with a leading `v`.
    pub version: Option<String>,

    /// Namespace that the provider watches. Default: all namespaces. Deprecated: this field will be removed.
    pub watched_namespace: Option<String>,
}

impl ProviderSpec {
    /// The provider type, if it is known.
    pub fn provider_type(&self) -> Option<ProviderType> {
        ProviderType::ALL.into_iter().find(|known| self.type_.as_deref() == Some(known.as_str()))
    }
}

/// Types of providers, in the order of installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderType {
    /// Core.
    Core,
    /// Bootstrap provider: creates bootstrap data.
    Bootstrap,
    /// Control plane provider: creates control planes.
    ControlPlane,
    /// Infrastructure provider: creates machines and networks.
    Infrastructure,
    /// IPAM provider: assigns IP addresses.
    Ipam,
    /// Runtime extension: serves runtime hooks.
    RuntimeExtension,
    /// Add-on provider: installs resources into clusters.
    Addon,
}

impl ProviderType {
    /// All types, in the order of installation.
    pub const ALL: [Self; 7] = [
        Self::Core,
        Self::Bootstrap,
        Self::ControlPlane,
        Self::Infrastructure,
        Self::Ipam,
        Self::RuntimeExtension,
        Self::Addon,
    ];

    /// The type as in a [`ProviderSpec`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Core => "CoreProvider",
            Self::Bootstrap => "BootstrapProvider",
            Self::ControlPlane => "ControlPlaneProvider",
            Self::Infrastructure => "InfrastructureProvider",
            Self::Ipam => "IPAMProvider",
            Self::RuntimeExtension => "RuntimeExtensionProvider",
            Self::Addon => "AddonProvider",
        }
    }

    /// Value of the provider label on all objects of a provider of this type; also the name of its [`Provider`].
    pub fn label(self, name: &str) -> String {
        match self {
            Self::Core => name.to_owned(),
            Self::Bootstrap => format!("bootstrap-{name}"),
            Self::ControlPlane => format!("control-plane-{name}"),
            Self::Infrastructure => format!("infrastructure-{name}"),
            Self::Ipam => format!("ipam-{name}"),
            Self::RuntimeExtension => format!("runtime-extension-{name}"),
            Self::Addon => format!("addon-{name}"),
        }
    }
}
