//! The kinds of `infrastructure.cluster.x-k8s.io` that Capstan provides. Their machines exist before a cluster is
//! created and after it is deleted.
//!
//! [`Host`] is the inventory, [`HostPool`] is a source of Hosts, [`HostRegistration`] is a machine that dials out,
//! [`HostMachine`] claims a Host for a Machine, and [`HostCluster`] is the infrastructure that the whole Cluster shares. State that must not be lost (the claim, the
//! quarantine, the pinned host keys) is in spec, because status does not survive a move or a restore.

mod host;
mod hostcluster;
mod hostmachine;
mod hostpool;
mod hostregistration;
mod provider_id;

pub use host::*;
pub use hostcluster::*;
pub use hostmachine::*;
pub use hostpool::*;
pub use hostregistration::*;
pub use provider_id::ProviderId;

crate::status_conditions!(
    HostClusterStatus,
    HostMachineStatus,
    HostStatus,
    HostPoolStatus,
    HostRegistrationStatus
);
