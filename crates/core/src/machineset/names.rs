//! Names around a MachineSet that are spoken only between core's own controllers.

pub use capstan_api::runtime::annotations::in_place;

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
