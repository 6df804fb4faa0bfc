//! Condition types and reasons that many kinds share. What only one kind uses stands beside that kind.

/// Condition types.
pub mod types {
    /// The object does its work for its users.
    pub const AVAILABLE: &str = "Available";
    /// The object works as it should.
    pub const READY: &str = "Ready";
    /// The bootstrap config of the object is ready.
    pub const BOOTSTRAP_CONFIG_READY: &str = "BootstrapConfigReady";
    /// The infrastructure of the object is ready.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// All Machines of the object are ready.
    pub const MACHINES_READY: &str = "MachinesReady";
    /// All Machines of the object match its spec.
    pub const MACHINES_UP_TO_DATE: &str = "MachinesUpToDate";
    /// Machines that do not match the spec are being replaced. Negative polarity.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// Machines are being added. Negative polarity.
    pub const SCALING_UP: &str = "ScalingUp";
    /// Machines are being taken away. Negative polarity.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// Unhealthy Machines are being dealt with. Negative polarity.
    pub const REMEDIATING: &str = "Remediating";
    /// The object is on its way out. Negative polarity.
    pub const DELETING: &str = "Deleting";
    /// Nobody reconciles the object for now. Negative polarity.
    pub const PAUSED: &str = "Paused";
}

/// Reasons.
pub mod reasons {
    /// The object is available.
    pub const AVAILABLE: &str = "Available";
    /// The object is not available.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// Nobody can tell whether the object is available.
    pub const AVAILABLE_UNKNOWN: &str = "AvailableUnknown";

    /// The object is ready.
    pub const READY: &str = "Ready";
    /// The object is not ready.
    pub const NOT_READY: &str = "NotReady";
    /// Nobody can tell whether the object is ready.
    pub const READY_UNKNOWN: &str = "ReadyUnknown";

    /// The object is what it should be now.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// The object is what it should have been earlier.
    pub const NOT_UP_TO_DATE: &str = "NotUpToDate";
    /// Nobody can tell whether the object is up to date.
    pub const UP_TO_DATE_UNKNOWN: &str = "UpToDateUnknown";

    /// A rollout is under way.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// No rollout is under way.
    pub const NOT_ROLLING_OUT: &str = "NotRollingOut";
    /// Machines are being added.
    pub const SCALING_UP: &str = "ScalingUp";
    /// No Machines are being added.
    pub const NOT_SCALING_UP: &str = "NotScalingUp";
    /// Machines are being taken away.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// No Machines are being taken away.
    pub const NOT_SCALING_DOWN: &str = "NotScalingDown";
    /// At least one unhealthy Machine is being dealt with.
    pub const REMEDIATING: &str = "Remediating";
    /// No Machine needs remediation.
    pub const NOT_REMEDIATING: &str = "NotRemediating";
    /// The object has no Machines to speak of.
    pub const NO_REPLICAS: &str = "NoReplicas";
    /// Nobody has said yet how many Machines there should be.
    pub const WAITING_FOR_REPLICAS_SET: &str = "WaitingForReplicasSet";

    /// Another object reports conditions that break the rules.
    pub const INVALID_CONDITION_REPORTED: &str = "InvalidConditionReported";
    /// A controller failed in a way that only its log explains.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// A referenced object is not there.
    pub const OBJECT_DOES_NOT_EXIST: &str = "ObjectDoesNotExist";
    /// A referenced object was there and is gone.
    pub const OBJECT_DELETED: &str = "ObjectDeleted";
    /// The object is reconciled.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// The object is not reconciled for now.
    pub const PAUSED: &str = "Paused";
    /// The workload cluster cannot be reached.
    pub const CONNECTION_DOWN: &str = "ConnectionDown";
    /// Looking at something in the workload cluster failed.
    pub const INSPECTION_FAILED: &str = "InspectionFailed";
    /// Nobody has asked to delete the object.
    pub const NOT_DELETING: &str = "NotDeleting";
    /// The object is being deleted, and nothing more precise can be said.
    pub const DELETING: &str = "Deleting";
    /// All work before the object goes away is done.
    pub const DELETION_COMPLETED: &str = "DeletionCompleted";

    /// A machine's provider waits for the infrastructure of the cluster.
    pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY: &str = "WaitingForClusterInfrastructureReady";
    /// A machine's provider waits for the first control plane machine.
    pub const WAITING_FOR_CONTROL_PLANE_INITIALIZED: &str = "WaitingForControlPlaneInitialized";
    /// A machine's provider waits for bootstrap data.
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
    /// A piece of infrastructure is there.
    pub const PROVISIONED: &str = "Provisioned";
    /// A piece of infrastructure is not there.
    pub const NOT_PROVISIONED: &str = "NotProvisioned";

    /// Stands in where another object's condition should be and is not.
    pub const NOT_YET_REPORTED: &str = "NotYetReported";
    /// Stands in for the reason of a condition that has none, as v1beta1 conditions that are True.
    pub const NO_REASON_REPORTED: &str = "NoReasonReported";

    /// Of merged conditions some are not good, and the merge names no reason of its own.
    pub const ISSUES_REPORTED: &str = "IssuesReported";
    /// Of merged conditions some are unknown, and the merge names no reason of its own.
    pub const UNKNOWN_REPORTED: &str = "UnknownReported";
    /// All merged conditions are good, and the merge names no reason of its own.
    pub const INFO_REPORTED: &str = "InfoReported";
}
