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
        capstan_api::condition_reasons! {
            /// The control plane has responded.
            INITIALIZED = "Initialized";
            /// The control plane has not responded yet.
            NOT_INITIALIZED = "NotInitialized" => "Look at the first control plane machine: `capstan why CLUSTER`.";
            /// There are no workers.
            NO_WORKERS = "NoWorkers";
            /// The workload cluster responds.
            PROBE_SUCCEEDED = "ProbeSucceeded";
            /// The workload cluster does not respond.
            PROBE_FAILED = "ProbeFailed" => "Check that the API server of the workload cluster responds at `spec.controlPlaneEndpoint`, and that the manager can connect to it.";
            /// It is unknown whether a rollout is under way.
            ROLLING_OUT_UNKNOWN = "RollingOutUnknown" => "Look at the control plane and the MachineDeployments that the message names.";
            /// It is unknown whether machines are being created.
            SCALING_UP_UNKNOWN = "ScalingUpUnknown" => "Look at the control plane and the MachineDeployments that the message names.";
            /// It is unknown whether machines are being deleted.
            SCALING_DOWN_UNKNOWN = "ScalingDownUnknown" => "Look at the control plane and the MachineDeployments that the message names.";
            /// Deletion waits for MachineDeployments, MachineSets and workers.
            WAITING_FOR_WORKERS_DELETION = "WaitingForWorkersDeletion" => "Wait, or look at the Machines that are left: `capstan describe cluster NAME`.";
            /// Deletion waits for the control plane.
            WAITING_FOR_CONTROL_PLANE_DELETION = "WaitingForControlPlaneDeletion" => "Wait, or look at the Machines of the control plane: `capstan describe cluster NAME`.";
            /// Deletion waits for the infrastructure.
            WAITING_FOR_INFRASTRUCTURE_DELETION = "WaitingForInfrastructureDeletion" => "Wait, or look at the infrastructure object: it keeps its finalizer until its host or resource is released.";
            /// Everything is as the topology and the ClusterClass say.
            TOPOLOGY_RECONCILE_SUCCEEDED = "ReconcileSucceeded";
            /// The topology cannot be reconciled.
            TOPOLOGY_RECONCILE_FAILED = "ReconcileFailed" => "Correct what the message names in the Cluster or its ClusterClass. Other failures are retried.";
            /// The ClusterClass is not reconciled.
            CLUSTER_CLASS_NOT_RECONCILED = "ClusterClassNotReconciled" => "Look at the conditions of the ClusterClass. It may be paused.";
            /// An upgrade is in progress.
            CLUSTER_UPGRADING = "ClusterUpgrading" => "Wait. The message says which part of the cluster is upgraded, and which is next.";
            /// MachineDeployments are not upgraded because of an annotation.
            MACHINE_DEPLOYMENTS_UPGRADE_DEFERRED = "MachineDeploymentsUpgradeDeferred" => "Remove the annotation `topology.cluster.x-k8s.io/defer-upgrade` or `topology.cluster.x-k8s.io/hold-upgrade-sequence` in `spec.topology.workers` to let the upgrade go on.";
            /// MachinePools are not upgraded because of an annotation.
            MACHINE_POOLS_UPGRADE_DEFERRED = "MachinePoolsUpgradeDeferred" => "Remove the annotation `topology.cluster.x-k8s.io/defer-upgrade` or `topology.cluster.x-k8s.io/hold-upgrade-sequence` in `spec.topology.workers` to let the upgrade go on.";
        }
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
        capstan_api::condition_reasons! {
            /// The user provides the bootstrap data Secret.
            DATA_SECRET_PROVIDED = "DataSecretProvided";
            /// The Node is Ready.
            NODE_READY = "NodeReady";
            /// The Node is not Ready.
            NODE_NOT_READY = "NodeNotReady" => "Look at the Node (`kubectl describe node`) and at the kubelet on the machine.";
            /// It is unknown whether the Node is Ready.
            NODE_READY_UNKNOWN = "NodeReadyUnknown" => "Check that the kubelet on the machine runs and reaches the API server of the workload cluster.";
            /// The Node is healthy.
            NODE_HEALTHY = "NodeHealthy";
            /// The Node is not healthy.
            NODE_NOT_HEALTHY = "NodeNotHealthy" => "Look at the conditions of the Node (`kubectl describe node`): it is not ready, or lacks disk, memory or process IDs.";
            /// It is unknown whether the Node is healthy.
            NODE_HEALTH_UNKNOWN = "NodeHealthyUnknown" => "Check that the kubelet on the machine runs and reaches the API server of the workload cluster.";
            /// There is no Node.
            NODE_DOES_NOT_EXIST = "NodeDoesNotExist" => "Wait for the machine to register. If it does not, look at its plan: `capstan why machine/NAME`.";
            /// There was a Node, and it is deleted.
            NODE_DELETED = "NodeDeleted" => "Restart the kubelet on the machine to register it again, or delete the Machine.";
            /// No in-place update is under way.
            NOT_UPDATING = "NotUpdating";
            /// An in-place update is under way.
            IN_PLACE_UPDATING = "InPlaceUpdating" => "Wait. `capstan why machine/NAME` shows the step of the plan.";
            /// An in-place update has failed and is retried.
            IN_PLACE_UPDATE_FAILED = "InPlaceUpdateFailed" => "Read the message. The update is retried; `capstan why machine/NAME` shows the output of the step that failed.";
            /// The Machine is being updated.
            UPDATING = "Updating" => "Wait. `capstan why machine/NAME` shows the step of the plan.";
            /// Ready for less than `minReadySeconds`.
            WAITING_FOR_MIN_READY_SECONDS = "WaitingForMinReadySeconds" => "Wait for `spec.minReadySeconds`.";
            /// Deletion waits for the owner of a pre-drain hook.
            WAITING_FOR_PRE_DRAIN_HOOK = "WaitingForPreDrainHook" => "The controller that has set the annotation `pre-drain.delete.hook.machine.cluster.x-k8s.io` must remove it. Remove it yourself if that controller no longer exists.";
            /// The Node is being drained.
            DRAINING_NODE = "DrainingNode" => "Wait. The message names the pods that are left and why, such as a PodDisruptionBudget. `nodeDrainTimeoutSeconds` limits the drain.";
            /// Deletion waits for volumes to be detached from the Node.
            WAITING_FOR_VOLUME_DETACH = "WaitingForVolumeDetach" => "Look at the VolumeAttachments of the Node. `nodeVolumeDetachTimeoutSeconds` limits the wait.";
            /// Deletion waits for the owner of a pre-terminate hook.
            WAITING_FOR_PRE_TERMINATE_HOOK = "WaitingForPreTerminateHook" => "The controller that has set the annotation `pre-terminate.delete.hook.machine.cluster.x-k8s.io` must remove it. Remove it yourself if that controller no longer exists.";
            /// Deletion waits for the infrastructure machine.
            WAITING_FOR_INFRASTRUCTURE_DELETION = "WaitingForInfrastructureDeletion" => "Wait, or look at the infrastructure machine: it keeps its finalizer until its host is released.";
            /// Deletion waits for the bootstrap config.
            WAITING_FOR_BOOTSTRAP_DELETION = "WaitingForBootstrapDeletion" => "Look at the bootstrap config: another controller keeps it with a finalizer.";
            /// The Node object is being deleted.
            DELETING_NODE = "DeletingNode" => "Wait. `nodeDeletionTimeoutSeconds` limits the wait.";
        }
    }
}

/// Reasons of events, as Cluster API's core has them.
pub(crate) mod events {
    /// A Machine has become a Node.
    pub(crate) const NODE_REF: &str = "SuccessfulSetNodeRef";
    /// Other machines of a MachinePool have become Nodes.
    pub(crate) const NODE_REFS: &str = "SuccessfulSetNodeRefs";
    /// The pods of a Machine's Node are gone.
    pub(crate) const DRAINED: &str = "SuccessfulDrainNode";
    /// The volumes of a Machine's Node are detached.
    pub(crate) const DETACHED: &str = "NodeVolumesDetached";
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

/// Annotations and taints of Nodes.
pub(crate) mod node {
    /// Annotation: name of the Cluster of the Node.
    pub(crate) const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Annotation: namespace of that Cluster.
    pub(crate) const CLUSTER_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";
    /// Annotation: name of the Machine of the Node.
    pub(crate) const MACHINE: &str = "cluster.x-k8s.io/machine";
    /// Annotation: kind of the controller of the Machine, or `MachinePool`.
    pub(crate) const OWNER_KIND: &str = "cluster.x-k8s.io/owner-kind";
    /// Annotation: name of the controller of the Machine, or of the MachinePool.
    pub(crate) const OWNER_NAME: &str = "cluster.x-k8s.io/owner-name";
    /// Taint, as key and effect: set on a worker by its bootstrap provider, so that no pod is scheduled before the labels are
    /// set.
    pub(crate) const UNINITIALIZED: (&str, &str) = ("node.cluster.x-k8s.io/uninitialized", "NoSchedule");
}
