//! Finalizers, labels, condition types and reasons of the infrastructure provider, by kind. Names that all kinds share
//! are in [`capstan_api::conditions`].

/// Label of Hosts: the HostPool that created the Host.
pub const POOL_LABEL: &str = "capstan.dev/host-pool";

/// Names around a HostRegistration.
pub mod hostregistration {
    /// Keeps a HostRegistration while a Host approves it: nothing else reaches the machine.
    pub const FINALIZER: &str = "hostregistration.infrastructure.cluster.x-k8s.io";
}

/// Names around a Host.
pub mod host {
    /// Keeps a Host while a machine claims it.
    pub const FINALIZER: &str = "host.infrastructure.cluster.x-k8s.io";
    /// Condition: the host responds.
    pub const REACHABLE: &str = "Reachable";
    /// Condition: no known problem prevents a machine from working on the host.
    pub const USABLE: &str = "Usable";

    /// Reasons of conditions in the desired state. Waits have a cause of [`capstan_api::wait`].
    pub mod reasons {
        /// The host responds.
        pub const REACHABLE: &str = "Reachable";
        /// No known problem prevents a machine from working on the host.
        pub const USABLE: &str = "Usable";
    }
}

/// Names around a HostPool.
pub mod hostpool {
    /// Keeps a HostPool that creates machines until they are deleted.
    pub const FINALIZER: &str = "hostpool.infrastructure.cluster.x-k8s.io";
    /// Condition: the pool has the desired number of hosts.
    pub const HOSTS_UP_TO_DATE: &str = "HostsUpToDate";

    /// Reasons of conditions in the desired state. Waits have a cause of [`capstan_api::wait`].
    pub mod reasons {
        /// The pool has the desired number of hosts.
        pub const UP_TO_DATE: &str = "UpToDate";
    }
}

/// Names around a HostCluster.
pub mod hostcluster {
    /// Keeps a HostCluster until no HostMachine of its Cluster is left.
    pub const FINALIZER: &str = "hostcluster.infrastructure.cluster.x-k8s.io";
    /// Condition: the control plane endpoint is known.
    pub const ENDPOINT_AVAILABLE: &str = "ControlPlaneEndpointAvailable";
    /// Condition: `status.failureDomains` lists in which failure domains a control plane machine can be placed now.
    pub const FAILURE_DOMAINS_KNOWN: &str = "FailureDomainsKnown";

    /// Reasons of conditions in the desired state. Waits have a cause of [`capstan_api::wait`].
    pub mod reasons {
        /// The failure domains are up to date.
        pub const FAILURE_DOMAINS_KNOWN: &str = "Known";
        /// The endpoint is known.
        pub const AVAILABLE: &str = "Available";
    }
}

/// Names around a HostMachine.
pub mod hostmachine {
    /// Keeps a HostMachine until its host is released.
    pub const FINALIZER: &str = "hostmachine.infrastructure.cluster.x-k8s.io";
    /// Condition: the machine has claimed a host.
    pub const HOST_CLAIMED: &str = "HostClaimed";
    /// Condition: the bootstrap data was executed.
    pub const BOOTSTRAP_EXECUTED: &str = "BootstrapExecuted";
    /// Condition: the agent on the machine follows this management plane. Present only if a hand-over was necessary.
    pub const AGENT_FOLLOWS: &str = "AgentFollows";

    /// Reasons of conditions in the desired state. Waits have a cause of [`capstan_api::wait`].
    pub mod reasons {
        /// A host was claimed.
        pub const CLAIMED: &str = "Claimed";
        /// The bootstrap data was executed.
        pub const BOOTSTRAPPED: &str = "Bootstrapped";
        /// The agent follows, or has followed.
        pub const FOLLOWS: &str = "Follows";
    }
}

/// Reasons of Events. A wait that only the user can end has its own Event.
pub mod events {
    /// Of a Host: it was released clean.
    pub const RELEASED: &str = "Released";
    /// Of a Host: it responds again.
    pub const REACHABLE: &str = "HostReachable";
    /// Of a HostRegistration: a Host has the machine.
    pub const APPROVED: &str = "Approved";
    /// Of a HostMachine: it has claimed a host.
    pub const HOST_CLAIMED: &str = "HostClaimed";
    /// Of a HostMachine: its host was released.
    pub const HOST_RELEASED: &str = "HostReleased";
    /// Of a HostMachine: its host is not clean after a reset.
    pub const RESET_FAILED: &str = "ResetFailed";
    /// Of a HostPool: Hosts were created.
    pub const HOSTS_CREATED: &str = "HostsCreated";
    /// Of a HostPool: Hosts were deleted.
    pub const HOSTS_DELETED: &str = "HostsDeleted";
}
