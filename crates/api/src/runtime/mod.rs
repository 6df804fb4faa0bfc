//! Runtime extensions: the kind that registers them, and the messages of the hooks they serve.

mod extension_config;
pub mod hooks;

pub use extension_config::*;

/// Annotation keys of runtime extensions.
pub mod annotations {
    /// On an ExtensionConfig: fill in `caBundle` from this Secret, as `namespace/name`.
    pub const INJECT_CA_FROM_SECRET: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";
    /// Names of hooks that are still to be called for an object, joined by commas.
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
    /// On a Cluster: the hook before its deletion has been called and has let it go.
    pub const OK_TO_DELETE: &str = "runtime.cluster.x-k8s.io/ok-to-delete";

    /// On a MachineDeployment, or on a control plane's Machines: whether a machine that Capstan has set up may be
    /// replaced where a change cannot be made in place. `Never` when unset: such a change is refused. `WhenNeeded`:
    /// in place where that is possible, otherwise the machine is replaced.
    pub const REPLACE_POLICY: &str = "capstan.dev/replace-policy";

    /// How a Machine is handed from one MachineSet to another to be changed in place.
    ///
    /// The MachineDeployment lowers the old MachineSet and tells both of the hand-over. The old one gives a Machine
    /// away instead of deleting it; until the MachineDeployment has counted it, the new one does not count it either.
    /// Then the new one writes what the Machine should become, and marks the hook as pending that makes it so.
    pub mod in_place {
        /// On a Machine and what belongs to it: it is being changed in place.
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
    }
}

/// Condition types and reasons of an ExtensionConfig.
pub mod conditions {
    /// Condition: the extension has said which hooks it serves. The reason when it has.
    pub const DISCOVERED: &str = "Discovered";
    /// Reason when it has not.
    pub const NOT_DISCOVERED: &str = "NotDiscovered";
}

crate::status_conditions!(ExtensionConfigStatus);
