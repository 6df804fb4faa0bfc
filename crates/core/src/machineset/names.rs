//! Names around a MachineSet that are spoken only between core's own controllers.

/// Keeps a MachineSet until its Machines are gone.
pub const FINALIZER: &str = "cluster.x-k8s.io/machineset";
/// Owns the fields of Machines, and the spec of what is cloned for them.
pub const FIELD_MANAGER: &str = "capi-machineset";
/// Owns labels and annotations of what is cloned for Machines.
pub const METADATA_FIELD_MANAGER: &str = "capi-machineset-metadata";
/// On a MachineSet or its bootstrap template: checks to leave out before a Machine is made, or `All`.
pub const SKIP_PREFLIGHT_CHECKS: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";

/// Reasons of `OwnerRemediated` on a Machine.
pub mod remediation {
    /// The rollout will remove the Machine.
    pub const CANNOT_BE_REMEDIATED: &str = "CannotBeRemediated";
    /// The Machine has to wait for its turn.
    pub const DEFERRED: &str = "RemediationDeferred";
    /// The Machine is being replaced.
    pub const MACHINE_DELETING: &str = "MachineDeleting";
}

/// How a Machine is handed from one MachineSet to another to be changed in place.
///
/// The MachineDeployment lowers the old MachineSet and tells both of the hand-over. The old one gives a Machine
/// away instead of deleting it; until the MachineDeployment has counted it, the new one treats it as surplus to
/// nobody's plan. Every step can be repeated, and none loses or doubles a Machine.
pub mod in_place {
    /// On a Machine: it is being changed in place.
    pub const UPDATE_IN_PROGRESS: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
    /// On a Machine: the MachineDeployment has not counted it to the new MachineSet yet.
    pub const PENDING_ACKNOWLEDGE_MOVE: &str =
        "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move";
    /// On the old MachineSet: give Machines to this MachineSet.
    pub const MOVE_MACHINES_TO: &str =
        "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset";
    /// On the new MachineSet: take Machines from these.
    pub const RECEIVE_MACHINES_FROM: &str =
        "in-place-updates.internal.cluster.x-k8s.io/receive-machines-from-machinesets";
    /// On the new MachineSet: these Machines have been counted.
    pub const ACKNOWLEDGED_MOVE: &str = "in-place-updates.internal.cluster.x-k8s.io/acknowledged-move";
    /// On a Machine: hooks that have not been called yet.
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
    /// The hook that changes a Machine.
    pub const UPDATE_MACHINE: &str = "UpdateMachine";
}
