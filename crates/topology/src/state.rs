//! The objects of a cluster: those that exist, and those that should.

use serde_json::Value;
use std::collections::BTreeMap;

/// The objects that exist. What could not be read must not be left out: an absent object is created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Current {
    /// The infrastructure cluster.
    pub infrastructure_cluster: Option<Value>,
    /// The control plane.
    pub control_plane: Option<Value>,
    /// The template of its machines.
    pub control_plane_machines: Option<Value>,
    /// MachineDeployments, by their name in the topology.
    pub machine_deployments: BTreeMap<String, CurrentWorkers>,
    /// MachinePools, by their name in the topology.
    pub machine_pools: BTreeMap<String, CurrentWorkers>,
}

/// A group of workers that exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurrentWorkers {
    /// The MachineDeployment or MachinePool.
    pub object: Value,
    /// Template of the bootstrap data, or the bootstrap data of a pool; `None` if it was deleted.
    pub bootstrap: Option<Value>,
    /// Template of the infrastructure, or the infrastructure of a pool; `None` if it was deleted.
    pub infrastructure: Option<Value>,
    /// Whether a machine of the group has another version than the group
    /// ([`machine_deployment_is_upgrading`](crate::upgrade::machine_deployment_is_upgrading)).
    pub is_upgrading: bool,
}

/// The objects that should exist. Each has only the fields that the topology sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// What the topology sets in the Cluster.
    pub cluster: DesiredCluster,
    /// The infrastructure cluster.
    pub infrastructure_cluster: Value,
    /// The control plane.
    pub control_plane: DesiredControlPlane,
    /// MachineDeployments, by their name in the topology.
    pub machine_deployments: BTreeMap<String, DesiredWorkers>,
    /// MachinePools, by their name in the topology.
    pub machine_pools: BTreeMap<String, DesiredWorkers>,
}

/// What the topology sets in the Cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredCluster {
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// All annotations.
    pub annotations: BTreeMap<String, String>,
    /// `spec.infrastructureRef`.
    pub infrastructure_ref: Value,
    /// `spec.controlPlaneRef`.
    pub control_plane_ref: Value,
}

/// The objects of the control plane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredControlPlane {
    /// The control plane.
    pub object: Value,
    /// The template of its machines.
    pub machine_template: Option<Value>,
    /// The health check of its machines.
    pub health_check: Option<Value>,
}

/// The objects of a group of workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredWorkers {
    /// The MachineDeployment or MachinePool.
    pub object: Value,
    /// Template of the bootstrap data, or the bootstrap data of a pool.
    pub bootstrap: Value,
    /// Template of the infrastructure, or the infrastructure of a pool.
    pub infrastructure: Value,
    /// The health check of its machines.
    pub health_check: Option<Value>,
}
