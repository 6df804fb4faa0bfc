//! Runtime extensions: the kind with which they are registered, and the messages of their hooks.

mod extension_config;
pub mod hooks;

pub use extension_config::*;

/// Annotation keys of runtime extensions.
pub mod annotations {
    /// On an ExtensionConfig: Secret from which `caBundle` is set, as `namespace/name`.
    pub const INJECT_CA_FROM_SECRET: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";
    /// Names of hooks that are not yet called for an object, separated by commas.
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
    /// On a Cluster: the hook before its deletion was called and allows the deletion.
    pub const OK_TO_DELETE: &str = "runtime.cluster.x-k8s.io/ok-to-delete";

    /// On a MachineDeployment, or on a Machine of a control plane: whether a machine that Capstan manages may be
    /// replaced if a change cannot be made in place. `Never`: such a change is refused. `WhenNeeded`: the machine is
    /// replaced if the change cannot be made in place. Default: `Never`.
    pub const REPLACE_POLICY: &str = "capstan.dev/replace-policy";

    /// Annotations for moving a Machine between MachineSets to update it in place.
    ///
    /// The MachineDeployment scales the old MachineSet down and sets annotations on both MachineSets. The old
    /// MachineSet moves a Machine to the new one instead of deleting it. The new MachineSet counts the Machine only
    /// after the MachineDeployment has acknowledged it. Then the new MachineSet writes the desired state of the Machine
    /// and marks the update hook as pending.
    pub mod in_place {
        /// On a Machine and its objects: an in-place update is in progress.
        pub const UPDATE_IN_PROGRESS: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
        /// On a Machine: the MachineDeployment has not yet acknowledged the move to the new MachineSet.
        pub const PENDING_ACKNOWLEDGE_MOVE: &str =
            "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move";
        /// On the old MachineSet: name of the MachineSet to which Machines are moved.
        pub const MOVE_MACHINES_TO: &str =
            "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset";
        /// On the new MachineSet: names of the MachineSets from which Machines are moved.
        pub const RECEIVE_MACHINES_FROM: &str =
            "in-place-updates.internal.cluster.x-k8s.io/receive-machines-from-machinesets";
        /// On the new MachineSet: names of the Machines whose move is acknowledged.
        pub const ACKNOWLEDGED_MOVE: &str = "in-place-updates.internal.cluster.x-k8s.io/acknowledged-move";
    }
}

/// Condition types and reasons of an ExtensionConfig.
pub mod conditions {
    crate::condition_reasons! {
        /// The hooks of the extension are known. The condition type has the same name.
        DISCOVERED = "Discovered";
        /// The hooks of the extension could not be read.
        NOT_DISCOVERED = "NotDiscovered" => "Check that the extension responds at `spec.clientConfig`, and its CA bundle. Capstan tries again by itself.";
    }
}

crate::status_conditions!(ExtensionConfigStatus);
