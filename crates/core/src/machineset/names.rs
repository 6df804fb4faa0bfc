//! Names around a MachineSet that are spoken only between core's own controllers.

pub use capstan_api::meta::annotations::SKIP_PREFLIGHT_CHECKS;
pub use capstan_api::runtime::annotations::in_place;

/// Keeps a MachineSet until its Machines are deleted.
pub const FINALIZER: &str = "cluster.x-k8s.io/machineset";
/// Field manager of Machines, and of the spec of objects that are cloned for them.
pub const FIELD_MANAGER: &str = "capi-machineset";
/// Field manager of labels and annotations of cloned objects.
pub const METADATA_FIELD_MANAGER: &str = "capi-machineset-metadata";

/// Reasons of `OwnerRemediated` on a Machine.
pub mod remediation {
    capstan_api::condition_reasons! {
        /// The Machine is not replaced: a rollout deletes it anyway, or it is kept (annotation `capstan.dev/hold`, replace policy).
        CANNOT_BE_REMEDIATED = "CannotBeRemediated" => "Read the message. Wait for the rollout, repair the machine, or allow its replacement.";
        /// The Machine waits until others are remediated.
        DEFERRED = "RemediationDeferred" => "Wait until the other Machines that the message counts are remediated.";
        /// The Machine is being deleted, to be replaced.
        MACHINE_DELETING = "MachineDeleting" => "Wait for the deletion of the Machine.";
    }
}
