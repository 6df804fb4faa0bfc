//! Condition types and reasons that several kinds share. Those of only one kind are defined with that kind.

/// Condition types.
pub mod types {
    /// The object is available to its users.
    pub const AVAILABLE: &str = "Available";
    /// The object works as expected.
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
    /// Machines are being removed. Negative polarity.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// Unhealthy Machines are being remediated. Negative polarity.
    pub const REMEDIATING: &str = "Remediating";
    /// The object is being deleted. Negative polarity.
    pub const DELETING: &str = "Deleting";
    /// Reconciliation of the object is paused. Negative polarity.
    pub const PAUSED: &str = "Paused";
}

/// Reasons.
pub mod reasons {
    /// The object is available.
    pub const AVAILABLE: &str = "Available";
    /// The object is not available.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// It is unknown whether the object is available.
    pub const AVAILABLE_UNKNOWN: &str = "AvailableUnknown";

    /// The object is ready.
    pub const READY: &str = "Ready";
    /// The object is not ready.
    pub const NOT_READY: &str = "NotReady";
    /// It is unknown whether the object is ready.
    pub const READY_UNKNOWN: &str = "ReadyUnknown";

    /// The object matches its desired state.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// The object does not match its desired state.
    pub const NOT_UP_TO_DATE: &str = "NotUpToDate";
    /// It is unknown whether the object is up to date.
    pub const UP_TO_DATE_UNKNOWN: &str = "UpToDateUnknown";

    /// A rollout is under way.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// No rollout is under way.
    pub const NOT_ROLLING_OUT: &str = "NotRollingOut";
    /// Machines are being added.
    pub const SCALING_UP: &str = "ScalingUp";
    /// No Machines are being added.
    pub const NOT_SCALING_UP: &str = "NotScalingUp";
    /// Machines are being removed.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// No Machines are being removed.
    pub const NOT_SCALING_DOWN: &str = "NotScalingDown";
    /// At least one unhealthy Machine is being remediated.
    pub const REMEDIATING: &str = "Remediating";
    /// No Machine needs remediation.
    pub const NOT_REMEDIATING: &str = "NotRemediating";
    /// The object has no Machines.
    pub const NO_REPLICAS: &str = "NoReplicas";
    /// The desired number of Machines is not set yet.
    pub const WAITING_FOR_REPLICAS_SET: &str = "WaitingForReplicasSet";

    /// Another object reports invalid conditions.
    pub const INVALID_CONDITION_REPORTED: &str = "InvalidConditionReported";
    /// A controller failed; see its log.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// A referenced object does not exist.
    pub const OBJECT_DOES_NOT_EXIST: &str = "ObjectDoesNotExist";
    /// A referenced object existed and was deleted.
    pub const OBJECT_DELETED: &str = "ObjectDeleted";
    /// The object is reconciled.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// Reconciliation of the object is paused.
    pub const PAUSED: &str = "Paused";
    /// The workload cluster cannot be reached.
    pub const CONNECTION_DOWN: &str = "ConnectionDown";
    /// A part of the workload cluster could not be inspected.
    pub const INSPECTION_FAILED: &str = "InspectionFailed";
    /// Deletion of the object is not requested.
    pub const NOT_DELETING: &str = "NotDeleting";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// All work before the removal of the object is done.
    pub const DELETION_COMPLETED: &str = "DeletionCompleted";

    /// A machine's provider waits for the infrastructure of the cluster.
    pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY: &str = "WaitingForClusterInfrastructureReady";
    /// A machine's provider waits for the first control plane machine.
    pub const WAITING_FOR_CONTROL_PLANE_INITIALIZED: &str = "WaitingForControlPlaneInitialized";
    /// A machine's provider waits for bootstrap data.
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
    /// The infrastructure is provisioned.
    pub const PROVISIONED: &str = "Provisioned";
    /// The infrastructure is not provisioned.
    pub const NOT_PROVISIONED: &str = "NotProvisioned";

    /// Reason used if another object does not report the condition.
    pub const NOT_YET_REPORTED: &str = "NotYetReported";
    /// Reason used for a condition without a reason, such as a v1beta1 condition that is True.
    pub const NO_REASON_REPORTED: &str = "NoReasonReported";

    /// Default reason of a merge: at least one condition has a bad status.
    pub const ISSUES_REPORTED: &str = "IssuesReported";
    /// Default reason of a merge: at least one condition is unknown, and no condition has a bad status.
    pub const UNKNOWN_REPORTED: &str = "UnknownReported";
    /// Default reason of a merge: all conditions have a good status.
    pub const INFO_REPORTED: &str = "InfoReported";
}
