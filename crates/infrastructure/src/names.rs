//! Finalizers, labels, condition types and reasons of the infrastructure provider, by kind. What all kinds share is
//! in [`capstan_api::conditions`].

/// Which HostPool made a Host. On Hosts.
pub const POOL_LABEL: &str = "capstan.dev/host-pool";

/// The first part of every provider ID.
pub const PROVIDER_SCHEME: &str = "capstan";

/// Names around a Host.
pub mod host {
    /// Keeps a Host until no machine has it.
    pub const FINALIZER: &str = "host.infrastructure.cluster.x-k8s.io";
    /// Condition: the host answers.
    pub const REACHABLE: &str = "Reachable";
    /// Condition: nothing would stop a machine from working on the host.
    pub const USABLE: &str = "Usable";

    /// Reasons of conditions that are as they should be. What is waited for has a cause of [`capstan_api::wait`].
    pub mod reasons {
        /// The host answers.
        pub const REACHABLE: &str = "Reachable";
        /// Nothing would stop a machine from working on the host.
        pub const USABLE: &str = "Usable";
    }
}

/// Names around a HostPool.
pub mod hostpool {
    /// Keeps a HostPool that makes machines until they are gone.
    pub const FINALIZER: &str = "hostpool.infrastructure.cluster.x-k8s.io";
    /// Condition: there are as many hosts as there should be.
    pub const HOSTS_UP_TO_DATE: &str = "HostsUpToDate";

    /// Reasons of conditions that are as they should be. What is waited for has a cause of [`capstan_api::wait`].
    pub mod reasons {
        /// There are as many hosts as there should be.
        pub const UP_TO_DATE: &str = "UpToDate";
    }
}

/// Names around a HostCluster.
pub mod hostcluster {
    /// Keeps a HostCluster until no HostMachine of its Cluster is left.
    pub const FINALIZER: &str = "hostcluster.infrastructure.cluster.x-k8s.io";
    /// Condition: it is known where the API server will be reached.
    pub const ENDPOINT_AVAILABLE: &str = "ControlPlaneEndpointAvailable";
    /// Condition: `status.failureDomains` says in which failure domains a control plane machine can be placed now.
    pub const FAILURE_DOMAINS_KNOWN: &str = "FailureDomainsKnown";

    /// Reasons of conditions that are as they should be. What is waited for has a cause of [`capstan_api::wait`].
    pub mod reasons {
        /// The failure domains are up to date.
        pub const FAILURE_DOMAINS_KNOWN: &str = "Known";
        /// The endpoint is known.
        pub const AVAILABLE: &str = "Available";
    }
}

/// Names around a HostMachine.
pub mod hostmachine {
    /// Keeps a HostMachine until its host is given back.
    pub const FINALIZER: &str = "hostmachine.infrastructure.cluster.x-k8s.io";
    /// Condition: a host is this machine's.
    pub const HOST_CLAIMED: &str = "HostClaimed";
    /// Condition: the bootstrap data has been carried out.
    pub const BOOTSTRAP_EXECUTED: &str = "BootstrapExecuted";
    /// Condition: the agent on the machine was told to obey this management plane. Only there once that was necessary.
    pub const AGENT_FOLLOWS: &str = "AgentFollows";

    /// Reasons of conditions that are as they should be. What is waited for has a cause of [`capstan_api::wait`].
    pub mod reasons {
        /// A host was claimed.
        pub const CLAIMED: &str = "Claimed";
        /// The bootstrap data has been carried out.
        pub const BOOTSTRAPPED: &str = "Bootstrapped";
        /// The agent follows, or has followed.
        pub const FOLLOWS: &str = "Follows";
    }
}

/// Reasons of events. A wait that only a person can end is an event by itself.
pub mod events {
    /// Of a Host: it was given back clean.
    pub const RELEASED: &str = "Released";
    /// Of a Host: it answers again.
    pub const REACHABLE: &str = "HostReachable";
    /// Of a HostMachine: it has a host.
    pub const HOST_CLAIMED: &str = "HostClaimed";
    /// Of a HostMachine: its host was given back.
    pub const HOST_RELEASED: &str = "HostReleased";
    /// Of a HostMachine: its host is not clean after it was reset.
    pub const RESET_FAILED: &str = "ResetFailed";
    /// Of a HostPool: Hosts were made.
    pub const HOSTS_CREATED: &str = "HostsCreated";
    /// Of a HostPool: Hosts were deleted.
    pub const HOSTS_DELETED: &str = "HostsDeleted";
}
