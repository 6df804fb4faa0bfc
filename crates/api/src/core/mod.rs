//! The kinds of `cluster.x-k8s.io/v1beta2`, which users write and core's controllers reconcile.

mod anyjson;
mod cluster;
mod clusterclass;
mod deprecated;
mod machine;
mod machinedeployment;
mod machinedrainrule;
mod machinehealthcheck;
mod machinepool;
mod machineset;
mod topology;

pub use anyjson::*;
pub use cluster::*;
pub use clusterclass::*;
pub use deprecated::*;
pub use machine::*;
pub use machinedeployment::*;
pub use machinedrainrule::*;
pub use machinehealthcheck::*;
pub use machinepool::*;
pub use machineset::*;
pub use topology::*;

crate::status_conditions!(
    ClusterStatus,
    ClusterClassStatus,
    MachineStatus,
    MachineSetStatus,
    MachineDeploymentStatus,
    MachinePoolStatus,
    MachineHealthCheckStatus
);
