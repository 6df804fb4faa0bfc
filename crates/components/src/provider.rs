//! The five providers: what clusterctl calls them, and what runs for each.

use capstan_api::clusterctl::ProviderType;

/// A provider that Capstan ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// Our core. It goes by upstream's name, because it does the same job: a plane has one or the other.
    Core,
    /// Bootstrap data and the enrolment of machines.
    Bootstrap,
    /// Control planes and the plans of machines.
    ControlPlane,
    /// Hosts.
    Infrastructure,
    /// The runtime hooks for updates in place.
    Hooks,
}

/// All of them, in the order in which they are installed.
pub fn providers() -> [Provider; 5] {
    [Provider::Core, Provider::Bootstrap, Provider::ControlPlane, Provider::Infrastructure, Provider::Hooks]
}

impl Provider {
    /// The group of controllers that runs for it, as `capstan manager --controllers` names it.
    pub const fn controllers(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Bootstrap => "bootstrap",
            Self::ControlPlane => "control-plane",
            Self::Infrastructure => "infrastructure",
            Self::Hooks => "hooks",
        }
    }

    /// Its type, as clusterctl knows it.
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

    /// What all its objects are labelled with; also its folder in a repository.
    pub fn label(self) -> String {
        self.provider_type().label(self.name())
    }

    /// Name of the file with its components.
    pub const fn components_file(self) -> &'static str {
        match self {
            Self::Core => "core-components.yaml",
            Self::Bootstrap => "bootstrap-components.yaml",
            Self::ControlPlane => "control-plane-components.yaml",
            Self::Infrastructure => "infrastructure-components.yaml",
            Self::Hooks => "runtime-extension-components.yaml",
        }
    }

    /// The namespace it is installed in, unless the user says otherwise.
    pub fn namespace(self) -> String {
        format!("capstan-{}-system", self.controllers())
    }

    /// Name of its Deployment and of its ServiceAccount.
    pub fn manager(self) -> String {
        format!("capstan-{}-manager", self.controllers())
    }

    /// Whether machines fetch software from it: the agent from who bootstraps them, the rest from who plans for them.
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
