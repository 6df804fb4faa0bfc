//! Finalizers, condition types and reasons of core, by kind. What all kinds share is in
//! [`capstan_api::conditions`].

/// API group of the core kinds.
pub const GROUP: &str = "cluster.x-k8s.io";

/// Message of a condition if only the log has details.
pub const CHECK_LOGS: &str = "Please check controller logs for errors";

/// Names around a Cluster.
pub mod cluster {
    /// Keeps a Cluster until everything that belongs to it is deleted.
    pub const FINALIZER: &str = "cluster.cluster.x-k8s.io";

    /// Condition types.
    pub mod types {
        /// The control plane has responded for the first time. Never becomes false again.
        pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
        /// Mirrors the `Available` condition of the control plane.
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
        /// The API server of the workload cluster responds.
        pub const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";
        /// The topology is reconciled. Written by the topology controller.
        pub const TOPOLOGY_RECONCILED: &str = "TopologyReconciled";
    }

    /// Reasons.
    pub mod reasons {
        /// The control plane has responded.
        pub const INITIALIZED: &str = "Initialized";
        /// The control plane has not responded yet.
        pub const NOT_INITIALIZED: &str = "NotInitialized";
        /// There are no workers.
        pub const NO_WORKERS: &str = "NoWorkers";
        /// The workload cluster responds.
        pub const PROBE_SUCCEEDED: &str = "ProbeSucceeded";
        /// The workload cluster does not respond.
        pub const PROBE_FAILED: &str = "ProbeFailed";
        /// It is unknown whether a rollout is under way.
        pub const ROLLING_OUT_UNKNOWN: &str = "RollingOutUnknown";
        /// It is unknown whether machines are being created.
        pub const SCALING_UP_UNKNOWN: &str = "ScalingUpUnknown";
        /// It is unknown whether machines are being deleted.
        pub const SCALING_DOWN_UNKNOWN: &str = "ScalingDownUnknown";
        /// Deletion waits for MachineDeployments, MachineSets and workers.
        pub const WAITING_FOR_WORKERS_DELETION: &str = "WaitingForWorkersDeletion";
        /// Deletion waits for the control plane.
        pub const WAITING_FOR_CONTROL_PLANE_DELETION: &str = "WaitingForControlPlaneDeletion";
        /// Deletion waits for the infrastructure.
        pub const WAITING_FOR_INFRASTRUCTURE_DELETION: &str = "WaitingForInfrastructureDeletion";
        /// The topology cannot be reconciled.
        pub const TOPOLOGY_RECONCILE_FAILED: &str = "ReconcileFailed";
        /// The ClusterClass is not reconciled.
        pub const CLUSTER_CLASS_NOT_RECONCILED: &str = "ClusterClassNotReconciled";
    }
}

/// Names around a Machine.
pub mod machine {
    /// Keeps a Machine until its infrastructure and its Node are deleted.
    pub const FINALIZER: &str = "machine.cluster.x-k8s.io";

    /// Condition types.
    pub mod types {
        /// The Node is Ready.
        pub const NODE_READY: &str = "NodeReady";
        /// The Node is Ready and has no pressure condition.
        pub const NODE_HEALTHY: &str = "NodeHealthy";
        /// The Machine matches the spec of its owner.
        pub const UP_TO_DATE: &str = "UpToDate";
        /// The Machine is being updated in place. Negative polarity.
        pub const UPDATING: &str = "Updating";
        /// No MachineHealthCheck considers the Machine unhealthy.
        pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
        /// The owner has remediated an unhealthy Machine.
        pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
    }

    /// Reasons.
    pub mod reasons {
        /// The user provides the bootstrap data Secret.
        pub const DATA_SECRET_PROVIDED: &str = "DataSecretProvided";
        /// The Node is Ready.
        pub const NODE_READY: &str = "NodeReady";
        /// The Node is not Ready.
        pub const NODE_NOT_READY: &str = "NodeNotReady";
        /// It is unknown whether the Node is Ready.
        pub const NODE_READY_UNKNOWN: &str = "NodeReadyUnknown";
        /// The Node is healthy.
        pub const NODE_HEALTHY: &str = "NodeHealthy";
        /// The Node is not healthy.
        pub const NODE_NOT_HEALTHY: &str = "NodeNotHealthy";
        /// It is unknown whether the Node is healthy.
        pub const NODE_HEALTH_UNKNOWN: &str = "NodeHealthyUnknown";
        /// There is no Node.
        pub const NODE_DOES_NOT_EXIST: &str = "NodeDoesNotExist";
        /// There was a Node, and it is deleted.
        pub const NODE_DELETED: &str = "NodeDeleted";
        /// No in-place update is under way.
        pub const NOT_UPDATING: &str = "NotUpdating";
        /// An in-place update is under way.
        pub const IN_PLACE_UPDATING: &str = "InPlaceUpdating";
        /// An in-place update has failed and is retried.
        pub const IN_PLACE_UPDATE_FAILED: &str = "InPlaceUpdateFailed";
        /// The Machine is being updated.
        pub const UPDATING: &str = "Updating";
        /// Ready for less than `minReadySeconds`.
        pub const WAITING_FOR_MIN_READY_SECONDS: &str = "WaitingForMinReadySeconds";
        /// Deletion waits for the owner of a pre-drain hook.
        pub const WAITING_FOR_PRE_DRAIN_HOOK: &str = "WaitingForPreDrainHook";
        /// The Node is being drained.
        pub const DRAINING_NODE: &str = "DrainingNode";
        /// Deletion waits for volumes to be detached from the Node.
        pub const WAITING_FOR_VOLUME_DETACH: &str = "WaitingForVolumeDetach";
        /// Deletion waits for the owner of a pre-terminate hook.
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
