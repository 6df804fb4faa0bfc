//! Deletes the templates of MachineDeployments and MachineSets of a topology when nothing uses them any more. A finalizer
//! keeps each of them until that is done.
//!
//! Reads: the MachineDeployment or MachineSet, its Cluster, the other MachineDeployments and MachineSets of the Cluster.
//! Writes: the finalizer, deletions of templates and of the MachineHealthCheck of a MachineDeployment.
//! Phases: finalizer; on deletion read what is left, live, and delete what is not used.

mod act;
mod decide;
mod machinedeployment;
mod machineset;
pub mod names;
mod observe;
mod triggers;

pub use machinedeployment::TopologyMachineDeploymentReconciler;
pub use machineset::TopologyMachineSetReconciler;
pub use triggers::{run_machine_deployments, run_machine_sets};
