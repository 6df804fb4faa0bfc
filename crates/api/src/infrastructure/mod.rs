//! The kinds of `infrastructure.cluster.x-k8s.io` that Capstan provides: machines that exist before any
//! cluster does, and outlive it.
//!
//! [`Host`] is the inventory, [`HostPool`] says where hosts come from, [`HostMachine`] claims one for a
//! Machine, [`HostCluster`] is what a Cluster needs as a whole. What must not be lost (the claim, the
//! quarantine, the pinned host keys) is in spec, because status does not survive a move or a restore.

mod host;
mod hostcluster;
mod hostmachine;
mod hostpool;

pub use host::*;
pub use hostcluster::*;
pub use hostmachine::*;
pub use hostpool::*;

crate::status_conditions!(HostClusterStatus, HostMachineStatus, HostStatus, HostPoolStatus);
