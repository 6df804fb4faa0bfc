//! Finalizers.

/// Keeps a MachineDeployment of a topology until its templates are deleted.
pub const MACHINE_DEPLOYMENT_FINALIZER: &str = "machinedeployment.topology.cluster.x-k8s.io";
/// Keeps a MachineSet of a topology until its templates are deleted.
pub const MACHINE_SET_FINALIZER: &str = "machineset.topology.cluster.x-k8s.io";
