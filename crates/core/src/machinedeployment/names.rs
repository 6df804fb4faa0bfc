//! Names around a MachineDeployment that are spoken only between core's own controllers.

/// Keeps a MachineDeployment until its MachineSets are deleted.
pub const FINALIZER: &str = "cluster.x-k8s.io/machinedeployment";
/// Field manager of MachineSets.
pub const FIELD_MANAGER: &str = "capi-machinedeployment";

// The group is spelt with an s too many, and has to stay so.

/// The revision of the template of a MachineSet; on the MachineDeployment, the current revision.
pub const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
/// Earlier revisions of a MachineSet.
pub const REVISION_HISTORY: &str = "machinedeployment.clusters.x-k8s.io/revision-history";
/// Replicas of the MachineDeployment.
pub const DESIRED_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/desired-replicas";
/// Highest number of machines during a rollout.
pub const MAX_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/max-replicas";

/// Annotations of a MachineDeployment that are not handed down to its MachineSets.
pub(crate) const NOT_HANDED_DOWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "cluster.x-k8s.io/conversion-data",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
];

/// Reasons.
pub mod reasons {
    capstan_api::condition_reasons! {
        /// The number of available Machines is not known yet.
        WAITING_FOR_AVAILABLE_REPLICAS_SET = "WaitingForAvailableReplicasSet" => "Wait. If it persists, check that the controllers run.";
        /// The rollout does not begin or does not continue: an extension rejects the change, or does not answer.
        ROLLOUT_HELD = "RolloutHeld" => "Read the message. Correct the change that the extension rejects, or make the extension answer.";
    }
}
