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

    /// Reasons.
    pub mod reasons {
        /// The host answers.
        pub const REACHABLE: &str = "Reachable";
        /// The host does not answer.
        pub const UNREACHABLE: &str = "Unreachable";
        /// Capstan cannot reach hosts of this sort yet.
        pub const NOT_SUPPORTED: &str = "NotSupported";
        /// The host shows a key that is not pinned.
        pub const HOST_KEY_MISMATCH: &str = "HostKeyMismatch";
        /// No key of the host is pinned, or what is pinned is no key.
        pub const HOST_KEY_NOT_PINNED: &str = "HostKeyNotPinned";
        /// The credential is not there, or is none.
        pub const CREDENTIALS_MISSING: &str = "CredentialsMissing";
        /// The host refuses the credential.
        pub const CREDENTIALS_REFUSED: &str = "CredentialsRefused";
        /// Whoever logs in cannot become root.
        pub const NOT_ROOT: &str = "NotRoot";
        /// Nothing would stop a machine from working on the host.
        pub const USABLE: &str = "Usable";
        /// A machine would not work on the host.
        pub const NOT_USABLE: &str = "NotUsable";
        /// A person must put the host right.
        pub const QUARANTINED: &str = "Quarantined";
        /// The machine that has the host is being deleted, and the host is not reset yet.
        pub const RELEASING: &str = "Releasing";
        /// Deletion waits until the machine that has the host gives it back.
        pub const WAITING_FOR_RELEASE: &str = "WaitingForRelease";
        /// The machine that has the host does not exist.
        pub const CLAIM_ORPHANED: &str = "ClaimOrphaned";
        /// A person gave the host up while a machine was on it.
        pub const ABANDONED: &str = "Abandoned";
        /// The machine left something behind on the host.
        pub const LEFT_DIRTY: &str = "LeftDirty";
    }
}

/// Names around a HostPool.
pub mod hostpool {
    /// Keeps a HostPool that makes machines until they are gone.
    pub const FINALIZER: &str = "hostpool.infrastructure.cluster.x-k8s.io";
    /// Condition: there are as many hosts as there should be.
    pub const HOSTS_UP_TO_DATE: &str = "HostsUpToDate";

    /// Reasons.
    pub mod reasons {
        /// There are as many hosts as there should be.
        pub const UP_TO_DATE: &str = "UpToDate";
        /// Hosts are being made or taken away.
        pub const SCALING: &str = "Scaling";
        /// Hosts that should go are claimed.
        pub const WAITING_FOR_RELEASE: &str = "WaitingForRelease";
        /// Machines cannot be made, started or taken away.
        pub const MACHINES_FAILED: &str = "MachinesFailed";
        /// The key that machines should let in is not there.
        pub const CREDENTIALS_MISSING: &str = "CredentialsMissing";
        /// A Host of that name is there and belongs to somebody else.
        pub const NAME_TAKEN: &str = "NameTaken";
        /// Capstan cannot make hosts of this sort yet.
        pub const NOT_SUPPORTED: &str = "NotSupported";
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

    /// Reasons.
    pub mod reasons {
        /// The failure domains are up to date.
        pub const FAILURE_DOMAINS_KNOWN: &str = "Known";
        /// The control plane or its HostMachineTemplate cannot be read.
        pub const CONTROL_PLANE_HOSTS_UNKNOWN: &str = "ControlPlaneHostsUnknown";
        /// The endpoint is known.
        pub const AVAILABLE: &str = "Available";
        /// A person must set `spec.controlPlaneEndpoint`.
        pub const ENDPOINT_NOT_SET: &str = "ControlPlaneEndpointNotSet";
        /// There is no host the cluster may claim.
        pub const NO_HOSTS: &str = "NoHosts";
        /// A selector that is none.
        pub const INVALID_SELECTOR: &str = "InvalidHostSelector";
        /// Deletion waits for HostMachines.
        pub const WAITING_FOR_MACHINES: &str = "WaitingForHostMachinesDeletion";
        /// No core has taken the object for a Cluster yet.
        pub const WAITING_FOR_OWNER: &str = "WaitingForClusterOwner";
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

    /// Reasons.
    pub mod reasons {
        /// No core has taken the object for a Machine yet.
        pub const WAITING_FOR_OWNER: &str = "WaitingForMachineOwner";
        /// A host was claimed.
        pub const CLAIMED: &str = "Claimed";
        /// A host is being claimed.
        pub const CLAIMING: &str = "Claiming";
        /// No host can be claimed now.
        pub const NO_HOST_AVAILABLE: &str = "NoHostAvailable";
        /// The host that was asked for by name cannot be had.
        pub const HOST_NOT_AVAILABLE: &str = "HostNotAvailable";
        /// A selector that is none.
        pub const INVALID_SELECTOR: &str = "InvalidHostSelector";
        /// The host that was claimed is gone, or no longer carries the claim.
        pub const HOST_LOST: &str = "HostLost";
        /// The claimed host does not answer.
        pub const HOST_UNREACHABLE: &str = "HostUnreachable";
        /// The bootstrap data is being carried out.
        pub const BOOTSTRAPPING: &str = "Bootstrapping";
        /// The bootstrap data has been carried out.
        pub const BOOTSTRAPPED: &str = "Bootstrapped";
        /// The bootstrap data could not be carried out.
        pub const BOOTSTRAP_FAILED: &str = "BootstrapFailed";
        /// The agent follows, or has followed.
        pub const FOLLOWS: &str = "Follows";
        /// The agent does not follow: another management plane has taken the machine over.
        pub const FOLLOWING_REFUSED: &str = "FollowingRefused";
        /// No host is claimed yet, so there is nothing to start.
        pub const WAITING_FOR_HOST: &str = "WaitingForHost";
        /// The host is being cleaned.
        pub const RESETTING_HOST: &str = "ResettingHost";
        /// The host did not come back clean and was put into quarantine.
        pub const HOST_QUARANTINED: &str = "HostQuarantined";
    }
}

/// Reasons of events.
pub mod events {
    /// Of a Host: a machine has claimed it.
    pub const CLAIMED: &str = "Claimed";
    /// Of a Host: it was given back clean.
    pub const RELEASED: &str = "Released";
    /// Of a Host: it was given back with something left on it.
    pub const QUARANTINED: &str = "Quarantined";
    /// Of a Host: it does not answer any more.
    pub const UNREACHABLE: &str = "HostUnreachable";
    /// Of a Host: it answers again.
    pub const REACHABLE: &str = "HostReachable";
    /// Of a HostMachine: it has a host.
    pub const HOST_CLAIMED: &str = "HostClaimed";
    /// Of a HostMachine: its host was given back.
    pub const HOST_RELEASED: &str = "HostReleased";
    /// Of a HostMachine: its host carries out the bootstrap data.
    pub const BOOTSTRAP_STARTED: &str = "BootstrapStarted";
    /// Of a HostMachine: its host could not carry out the bootstrap data.
    pub const BOOTSTRAP_FAILED: &str = "BootstrapFailed";
    /// Of a HostMachine: its host could not be reset, or is not clean after it.
    pub const RESET_FAILED: &str = "ResetFailed";
    /// Of a HostPool: Hosts were made.
    pub const HOSTS_CREATED: &str = "HostsCreated";
    /// Of a HostPool: Hosts were deleted.
    pub const HOSTS_DELETED: &str = "HostsDeleted";
}
