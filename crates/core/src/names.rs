//! Finalizers, condition types and reasons of core, by kind. What all kinds share is in
//! [`capstan_api::conditions`].

/// API group of the core kinds.
pub const GROUP: &str = "cluster.x-k8s.io";

/// What a condition says when only the log can say more.
pub const CHECK_LOGS: &str = "Please check controller logs for errors";

/// Names around a Cluster.
pub mod cluster {
    /// Keeps a Cluster until all that belongs to it is gone.
    pub const FINALIZER: &str = "cluster.cluster.x-k8s.io";

    /// Condition types.
    pub mod types {
        /// The control plane has answered for the first time. Never goes back.
        pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
        /// What the control plane says of itself.
        pub const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
        /// All MachineDeployments are available.
        pub const WORKERS_AVAILABLE: &str = "WorkersAvailable";
        /// All control plane machines are Ready.
        pub const CONTROL_PLANE_MACHINES_READY: &str = "ControlPlaneMachinesReady";
        /// All control plane machines are UpToDate.
        pub const CONTROL_PLANE_MACHINES_UP_TO_DATE: &str = "ControlPlaneMachinesUpToDate";
        /// All workers are Ready.
        pub const WORKER_MACHINES_READY: &str = "WorkerMachinesReady";
        /// All workers are UpToDate.
        pub const WORKER_MACHINES_UP_TO_DATE: &str = "WorkerMachinesUpToDate";
        /// The API server of the workload cluster answers.
        pub const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";
        /// The topology is carried out. Written by the topology controller.
        pub const TOPOLOGY_RECONCILED: &str = "TopologyReconciled";
    }

    /// Reasons.
    pub mod reasons {
        /// The control plane has answered.
        pub const INITIALIZED: &str = "Initialized";
        /// The control plane has not answered yet.
        pub const NOT_INITIALIZED: &str = "NotInitialized";
        /// There are no workers to be available.
        pub const NO_WORKERS: &str = "NoWorkers";
        /// The workload cluster answers.
        pub const PROBE_SUCCEEDED: &str = "ProbeSucceeded";
        /// The workload cluster does not answer.
        pub const PROBE_FAILED: &str = "ProbeFailed";
        /// Nobody can tell whether a rollout is under way.
        pub const ROLLING_OUT_UNKNOWN: &str = "RollingOutUnknown";
        /// Nobody can tell whether machines are being added.
        pub const SCALING_UP_UNKNOWN: &str = "ScalingUpUnknown";
        /// Nobody can tell whether machines are being taken away.
        pub const SCALING_DOWN_UNKNOWN: &str = "ScalingDownUnknown";
        /// Deletion waits for MachineDeployments, MachineSets and workers.
        pub const WAITING_FOR_WORKERS_DELETION: &str = "WaitingForWorkersDeletion";
        /// Deletion waits for the control plane.
        pub const WAITING_FOR_CONTROL_PLANE_DELETION: &str = "WaitingForControlPlaneDeletion";
        /// Deletion waits for the infrastructure.
        pub const WAITING_FOR_INFRASTRUCTURE_DELETION: &str = "WaitingForInfrastructureDeletion";
        /// The topology could not be carried out.
        pub const TOPOLOGY_RECONCILE_FAILED: &str = "ReconcileFailed";
        /// The ClusterClass is not ready to be used.
        pub const CLUSTER_CLASS_NOT_RECONCILED: &str = "ClusterClassNotReconciled";
    }
}

/// Names around a Machine.
pub mod machine {
    /// Keeps a Machine until its infrastructure and its Node are gone.
    pub const FINALIZER: &str = "machine.cluster.x-k8s.io";

    /// Condition types.
    pub mod types {
        /// The Node is Ready.
        pub const NODE_READY: &str = "NodeReady";
        /// The Node is Ready and under no pressure.
        pub const NODE_HEALTHY: &str = "NodeHealthy";
        /// The Machine is as its owner wants it now.
        pub const UP_TO_DATE: &str = "UpToDate";
        /// The Machine is being changed in place. Negative polarity.
        pub const UPDATING: &str = "Updating";
        /// No MachineHealthCheck has anything to say against the Machine.
        pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
        /// The owner has dealt with an unhealthy Machine.
        pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
    }

    /// Reasons.
    pub mod reasons {
        /// The user brought the bootstrap data.
        pub const DATA_SECRET_PROVIDED: &str = "DataSecretProvided";
        /// The Node is Ready.
        pub const NODE_READY: &str = "NodeReady";
        /// The Node is not Ready.
        pub const NODE_NOT_READY: &str = "NodeNotReady";
        /// Nobody can tell whether the Node is Ready.
        pub const NODE_READY_UNKNOWN: &str = "NodeReadyUnknown";
        /// The Node is healthy.
        pub const NODE_HEALTHY: &str = "NodeHealthy";
        /// The Node is not healthy.
        pub const NODE_NOT_HEALTHY: &str = "NodeNotHealthy";
        /// Nobody can tell whether the Node is healthy.
        pub const NODE_HEALTH_UNKNOWN: &str = "NodeHealthyUnknown";
        /// There is no Node.
        pub const NODE_DOES_NOT_EXIST: &str = "NodeDoesNotExist";
        /// There was a Node, and it is gone.
        pub const NODE_DELETED: &str = "NodeDeleted";
        /// No in-place change is under way.
        pub const NOT_UPDATING: &str = "NotUpdating";
        /// An in-place change is under way.
        pub const IN_PLACE_UPDATING: &str = "InPlaceUpdating";
        /// An in-place change has failed, and is tried again.
        pub const IN_PLACE_UPDATE_FAILED: &str = "InPlaceUpdateFailed";
        /// The Machine is on its way to being up to date.
        pub const UPDATING: &str = "Updating";
        /// Ready, but not for long enough.
        pub const WAITING_FOR_MIN_READY_SECONDS: &str = "WaitingForMinReadySeconds";
        /// Deletion waits for whoever put a pre-drain hook on the Machine.
        pub const WAITING_FOR_PRE_DRAIN_HOOK: &str = "WaitingForPreDrainHook";
        /// Pods are being moved off the Node.
        pub const DRAINING_NODE: &str = "DrainingNode";
        /// Deletion waits for volumes to be detached from the Node.
        pub const WAITING_FOR_VOLUME_DETACH: &str = "WaitingForVolumeDetach";
        /// Deletion waits for whoever put a pre-terminate hook on the Machine.
        pub const WAITING_FOR_PRE_TERMINATE_HOOK: &str = "WaitingForPreTerminateHook";
        /// Deletion waits for the infrastructure machine.
        pub const WAITING_FOR_INFRASTRUCTURE_DELETION: &str = "WaitingForInfrastructureDeletion";
        /// Deletion waits for the bootstrap config.
        pub const WAITING_FOR_BOOTSTRAP_DELETION: &str = "WaitingForBootstrapDeletion";
        /// The Node object is being deleted.
        pub const DELETING_NODE: &str = "DeletingNode";
    }
}

/// Reasons of events, as Cluster API's core has them.
pub(crate) mod events {
    /// A Machine has become a Node.
    pub(crate) const NODE_REF: &str = "SuccessfulSetNodeRef";
    /// The pods of a Machine's Node are gone.
    pub(crate) const DRAINED: &str = "SuccessfulDrainNode";
    /// A Machine or a MachineSet was made.
    pub(crate) const CREATED: &str = "SuccessfulCreate";
    /// It could not be.
    pub(crate) const NOT_CREATED: &str = "FailedCreate";
    /// A Machine was asked to go.
    pub(crate) const DELETED: &str = "SuccessfulDelete";
    /// A Machine fails its health check.
    pub(crate) const UNHEALTHY: &str = "MachineMarkedUnhealthy";
    /// Too many Machines do for any of them to be acted on.
    pub(crate) const RESTRICTED: &str = "RemediationRestricted";
}
