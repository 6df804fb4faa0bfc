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
    crate::condition_reasons! {
        /// The object is available.
        AVAILABLE = "Available";
        /// The object is not available.
        NOT_AVAILABLE = "NotAvailable" => "Look at the other conditions of the object: the message repeats the ones that are not met.";
        /// It is unknown whether the object is available.
        AVAILABLE_UNKNOWN = "AvailableUnknown" => "Look at the other conditions of the object: the message repeats the unknown ones.";

        /// The object is ready.
        READY = "Ready";
        /// The object is not ready.
        NOT_READY = "NotReady" => "Look at the other conditions of the object: the message repeats the ones that are not met.";
        /// It is unknown whether the object is ready.
        READY_UNKNOWN = "ReadyUnknown" => "Look at the other conditions of the object: the message repeats the unknown ones.";

        /// The object matches its desired state.
        UP_TO_DATE = "UpToDate";
        /// The object does not match its desired state.
        NOT_UP_TO_DATE = "NotUpToDate" => "Wait for the rollout. `capstan why CLUSTER` shows which machine is next and what holds the rollout up.";
        /// It is unknown whether the object is up to date.
        UP_TO_DATE_UNKNOWN = "UpToDateUnknown" => "Look at the control plane or MachineDeployment of the Machine.";

        /// A rollout is under way.
        ROLLING_OUT = "RollingOut" => "Wait. `capstan why CLUSTER` shows which machine is next and what holds the rollout up.";
        /// No rollout is under way.
        NOT_ROLLING_OUT = "NotRollingOut";
        /// Machines are being added.
        SCALING_UP = "ScalingUp" => "Wait. `capstan why CLUSTER` shows what new machines wait for.";
        /// No Machines are being added.
        NOT_SCALING_UP = "NotScalingUp";
        /// Machines are being removed.
        SCALING_DOWN = "ScalingDown" => "Wait. `capstan why CLUSTER` shows what machines that are being deleted wait for.";
        /// No Machines are being removed.
        NOT_SCALING_DOWN = "NotScalingDown";
        /// At least one unhealthy Machine is being remediated.
        REMEDIATING = "Remediating" => "Wait, or find out why the Machine is unhealthy: `capstan why machine/NAME`.";
        /// No Machine needs remediation.
        NOT_REMEDIATING = "NotRemediating";
        /// The object has no Machines.
        NO_REPLICAS = "NoReplicas";
        /// The desired number of Machines is not set yet.
        WAITING_FOR_REPLICAS_SET = "WaitingForReplicasSet" => "Set `spec.replicas`. If it is set, check that the controllers run (`capstan get clusters`).";

        /// Another object reports invalid conditions.
        INVALID_CONDITION_REPORTED = "InvalidConditionReported" => "Correct the provider that reports the condition; the message names the object.";
        /// A controller failed; see its log.
        INTERNAL_ERROR = "InternalError" => "Read the log of the controller. It retries by itself.";
        /// A referenced object does not exist.
        OBJECT_DOES_NOT_EXIST = "ObjectDoesNotExist" => "Create the object that the message names, or correct the reference to it.";
        /// A referenced object existed and was deleted.
        OBJECT_DELETED = "ObjectDeleted" => "Restore the object that the message names, or delete the object that refers to it.";
        /// The object is reconciled.
        NOT_PAUSED = "NotPaused";
        /// Reconciliation of the object is paused.
        PAUSED = "Paused" => "Remove `spec.paused` of the Cluster, or the annotation `cluster.x-k8s.io/paused` of the object.";
        /// The workload cluster cannot be reached.
        CONNECTION_DOWN = "ConnectionDown" => "Check that the API server of the workload cluster responds at `spec.controlPlaneEndpoint`, and that the manager can connect to it.";
        /// A part of the workload cluster could not be inspected.
        INSPECTION_FAILED = "InspectionFailed" => "Read the message. The controller retries by itself; check the connection to the workload cluster if it persists.";
        /// Deletion of the object is not requested.
        NOT_DELETING = "NotDeleting";
        /// The object is being deleted.
        DELETING = "Deleting" => "Wait. The message says what is deleted first; `capstan why` shows what the deletion waits for.";
        /// All work before the removal of the object is done.
        DELETION_COMPLETED = "DeletionCompleted";

        /// A machine's provider waits for the infrastructure of the cluster.
        WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY = "WaitingForClusterInfrastructureReady" => "Look at the condition InfrastructureReady of the Cluster.";
        /// A machine's provider waits for the first control plane machine.
        WAITING_FOR_CONTROL_PLANE_INITIALIZED = "WaitingForControlPlaneInitialized" => "Look at the first control plane machine: `capstan why CLUSTER`.";
        /// A machine's provider waits for bootstrap data.
        WAITING_FOR_BOOTSTRAP_DATA = "WaitingForBootstrapData" => "Look at the bootstrap config of the Machine.";
        /// The infrastructure is provisioned.
        PROVISIONED = "Provisioned";
        /// The infrastructure is not provisioned.
        NOT_PROVISIONED = "NotProvisioned" => "Look at the conditions of the infrastructure machine.";

        /// Reason used if another object does not report the condition.
        NOT_YET_REPORTED = "NotYetReported" => "Wait for the controller of the object that the message names. If it persists, check that the controller runs.";
        /// Reason used for a condition without a reason, such as a v1beta1 condition that is True.
        NO_REASON_REPORTED = "NoReasonReported" => "Look at the object that the message names: its controller gives no reason.";

        /// Default reason of a merge: at least one condition has a bad status.
        ISSUES_REPORTED = "IssuesReported" => "Read the message: it repeats the conditions that are not met, with their objects.";
        /// Default reason of a merge: at least one condition is unknown, and no condition has a bad status.
        UNKNOWN_REPORTED = "UnknownReported" => "Read the message: it repeats the unknown conditions, with their objects.";
        /// Default reason of a merge: all conditions have a good status.
        INFO_REPORTED = "InfoReported";
    }
}
