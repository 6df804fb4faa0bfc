//! Names around a MachineSet that are spoken only between core's own controllers.

pub use capstan_api::runtime::annotations::in_place;

/// Keeps a MachineSet until its Machines are deleted.
pub const FINALIZER: &str = "cluster.x-k8s.io/machineset";
/// Field manager of Machines, and of the spec of objects that are cloned for them.
pub const FIELD_MANAGER: &str = "capi-machineset";
/// Field manager of labels and annotations of cloned objects.
pub const METADATA_FIELD_MANAGER: &str = "capi-machineset-metadata";
/// Annotation of a MachineSet or its bootstrap template: preflight checks to skip before a Machine is created, or
/// `All`.
pub const SKIP_PREFLIGHT_CHECKS: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";

/// Reasons of `OwnerRemediated` on a Machine.
pub mod remediation {
    /// The rollout deletes the Machine.
    pub const CANNOT_BE_REMEDIATED: &str = "CannotBeRemediated";
    /// The Machine waits until others are remediated.
    pub const DEFERRED: &str = "RemediationDeferred";
    /// The Machine is being replaced.
    pub const MACHINE_DELETING: &str = "MachineDeleting";
}
