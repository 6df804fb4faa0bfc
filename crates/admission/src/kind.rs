//! The kinds of Cluster API's core that are admitted, and the operations that are seen, as upstream's configurations of
//! webhooks have them.

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The object is new.
    Create,
    /// The object is there.
    Update,
    /// The object goes.
    Delete,
}

impl Operation {
    /// As rules and reviews of webhooks write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    /// The operation that is written like this.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete].into_iter().find(|operation| operation.as_str() == text)
    }
}

/// The version that admission sees.
pub const VERSION: &str = "v1beta2";

const CORE: &str = "cluster.x-k8s.io";
const ADDONS: &str = "addons.cluster.x-k8s.io";
const RUNTIME: &str = "runtime.cluster.x-k8s.io";
const IPAM: &str = "ipam.cluster.x-k8s.io";

/// A kind whose writes are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `Cluster`
    Cluster,
    /// `ClusterClass`
    ClusterClass,
    /// `Machine`
    Machine,
    /// `MachineSet`
    MachineSet,
    /// `MachineDeployment`
    MachineDeployment,
    /// `MachinePool`
    MachinePool,
    /// `MachineHealthCheck`
    MachineHealthCheck,
    /// `MachineDrainRule`
    MachineDrainRule,
    /// `ClusterResourceSet`
    ClusterResourceSet,
    /// `ClusterResourceSetBinding`
    ClusterResourceSetBinding,
    /// `ExtensionConfig`
    ExtensionConfig,
    /// `IPAddress`
    IpAddress,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Cluster,
        Self::ClusterClass,
        Self::Machine,
        Self::MachineSet,
        Self::MachineDeployment,
        Self::MachinePool,
        Self::MachineHealthCheck,
        Self::MachineDrainRule,
        Self::ClusterResourceSet,
        Self::ClusterResourceSetBinding,
        Self::ExtensionConfig,
        Self::IpAddress,
    ];

    /// The kind with this group and name.
    pub fn find(group: &str, name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.group() == group && kind.name() == name)
    }

    /// The API group.
    pub const fn group(self) -> &'static str {
        match self {
            Self::ClusterResourceSet | Self::ClusterResourceSetBinding => ADDONS,
            Self::ExtensionConfig => RUNTIME,
            Self::IpAddress => IPAM,
            _ => CORE,
        }
    }

    /// The name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::ClusterClass => "ClusterClass",
            Self::Machine => "Machine",
            Self::MachineSet => "MachineSet",
            Self::MachineDeployment => "MachineDeployment",
            Self::MachinePool => "MachinePool",
            Self::MachineHealthCheck => "MachineHealthCheck",
            Self::MachineDrainRule => "MachineDrainRule",
            Self::ClusterResourceSet => "ClusterResourceSet",
            Self::ClusterResourceSetBinding => "ClusterResourceSetBinding",
            Self::ExtensionConfig => "ExtensionConfig",
            Self::IpAddress => "IPAddress",
        }
    }

    /// The name of the resource.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Cluster => "clusters",
            Self::ClusterClass => "clusterclasses",
            Self::Machine => "machines",
            Self::MachineSet => "machinesets",
            Self::MachineDeployment => "machinedeployments",
            Self::MachinePool => "machinepools",
            Self::MachineHealthCheck => "machinehealthchecks",
            Self::MachineDrainRule => "machinedrainrules",
            Self::ClusterResourceSet => "clusterresourcesets",
            Self::ClusterResourceSetBinding => "clusterresourcesetbindings",
            Self::ExtensionConfig => "extensionconfigs",
            Self::IpAddress => "ipaddresses",
        }
    }

    /// Operations for which there are defaults.
    pub const fn defaulted(self) -> &'static [Operation] {
        match self {
            Self::Cluster
            | Self::Machine
            | Self::MachineSet
            | Self::MachineDeployment
            | Self::MachinePool
            | Self::MachineHealthCheck
            | Self::ExtensionConfig => &[Operation::Create, Operation::Update],
            Self::ClusterClass
            | Self::MachineDrainRule
            | Self::ClusterResourceSet
            | Self::ClusterResourceSetBinding
            | Self::IpAddress => &[],
        }
    }

    /// Operations for which there are rules that the schema does not have.
    pub const fn validated(self) -> &'static [Operation] {
        match self {
            Self::ClusterClass => &[Operation::Create, Operation::Update, Operation::Delete],
            Self::ClusterResourceSetBinding => &[],
            // The schema rejects every change.
            Self::IpAddress => &[Operation::Create],
            _ => &[Operation::Create, Operation::Update],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_group_and_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::find(kind.group(), kind.name()), Some(kind));
            assert!(kind.plural().starts_with(&kind.name().to_lowercase()));
        }
        assert_eq!(Kind::find("example.com", "Machine"), None);
        assert_eq!(Kind::find("cluster.x-k8s.io", "IPAddress"), None);
    }

    #[test]
    fn operations_are_read_as_they_are_written() {
        assert_eq!(Operation::parse("DELETE"), Some(Operation::Delete));
        assert_eq!(Operation::parse("CONNECT"), None);
    }
}
