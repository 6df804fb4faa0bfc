//! Names around a MachinePool.

/// Keeps a MachinePool until the objects it refers to and its Nodes are deleted.
pub const FINALIZER: &str = "machinepool.cluster.x-k8s.io";
/// Applies the Machines of a pool. The name is upstream's, so that Machines do not change owners of fields with the core.
pub const FIELD_MANAGER: &str = "machinepool-controller";
