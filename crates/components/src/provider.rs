//! The five providers: their clusterctl names, and the controllers that run for each.

use capstan_api::clusterctl::ProviderType;

/// A provider that Capstan ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// Capstan's core. It has upstream's name, because it replaces upstream's core: a plane has one or the other.
    Core,
    /// Bootstrap data and enrolment of machines.
    Bootstrap,
    /// Control planes and plans of machines.
    ControlPlane,
    /// Hosts.
    Infrastructure,
    /// Runtime hooks for in-place updates.
    Hooks,
}

/// All providers, in the order in which they are installed.
pub fn providers() -> [Provider; 5] {
    [Provider::Core, Provider::Bootstrap, Provider::ControlPlane, Provider::Infrastructure, Provider::Hooks]
}

impl Provider {
    /// The controllers that run for it, as in `capstan manager --controllers`.
    pub const fn controllers(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Bootstrap => "bootstrap",
            Self::ControlPlane => "control-plane",
            Self::Infrastructure => "infrastructure",
            Self::Hooks => "hooks",
        }
    }

    /// Its clusterctl provider type.
    pub const fn provider_type(self) -> ProviderType {
        match self {
            Self::Core => ProviderType::Core,
            Self::Bootstrap => ProviderType::Bootstrap,
            Self::ControlPlane => ProviderType::ControlPlane,
            Self::Infrastructure => ProviderType::Infrastructure,
            Self::Hooks => ProviderType::RuntimeExtension,
        }
    }

    /// Its name, as in `clusterctl init --infrastructure NAME`.
    pub const fn name(self) -> &'static str {
        match self {
            // clusterctl knows no other core.
            Self::Core => "cluster-api",
            _ => "capstan",
        }
    }

    /// Value of the provider label on all its objects; also its folder in a repository.
    pub fn label(self) -> String {
        self.provider_type().label(self.name())
    }

    /// Name of the file with its manifests.
    pub const fn components_file(self) -> &'static str {
        match self {
            Self::Core => "core-components.yaml",
            Self::Bootstrap => "bootstrap-components.yaml",
            Self::ControlPlane => "control-plane-components.yaml",
            Self::Infrastructure => "infrastructure-components.yaml",
            Self::Hooks => "runtime-extension-components.yaml",
        }
    }

    /// The default namespace.
    pub fn namespace(self) -> String {
        format!("capstan-{}-system", self.controllers())
    }

    /// Name of its Deployment and of its ServiceAccount.
    pub fn manager(self) -> String {
        format!("capstan-{}-manager", self.controllers())
    }

    /// Whether machines download software from it: the agent from the bootstrap provider, all other software from the
    /// control plane provider.
    pub const fn serves_software(self) -> bool {
        matches!(self, Self::Bootstrap | Self::ControlPlane)
    }

    /// The ClusterRole with its rights everywhere. clusterctl removes what bears no namespace only if its name begins
    /// with the provider's.
    pub(crate) fn cluster_role(self) -> String {
        format!("{}-manager", self.namespace())
    }

    /// The ClusterRole for scrapers of its metrics.
    pub(crate) fn metrics_role(self) -> String {
        format!("{}-metrics-reader", self.namespace())
    }

    /// The ClusterRole that a RoleBinding brings into each namespace with clusters.
    pub(crate) fn namespace_role(self) -> String {
        format!("{}-cluster-namespace", self.namespace())
    }
}
