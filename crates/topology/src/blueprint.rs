//! What a cluster is made from: its class, the templates that the class refers to, and its topology.

use capstan_api::core::{
    ClusterClass, MachineDeploymentClass, MachineDeploymentTopology, MachinePoolClass, MachinePoolTopology,
    Topology,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// The templates of a class of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerTemplates {
    /// Template of the bootstrap data.
    pub bootstrap: Value,
    /// Template of the infrastructure.
    pub infrastructure: Value,
}

/// Class, templates and topology of a cluster.
#[derive(Clone, Debug)]
pub struct Blueprint<'a> {
    /// The class.
    pub class: &'a ClusterClass,
    /// The topology, with the defaults of all variables.
    pub topology: &'a Topology,
    /// Template of the infrastructure cluster.
    pub infrastructure_cluster: &'a Value,
    /// Template of the control plane.
    pub control_plane: &'a Value,
    /// Template of the machines of the control plane, if the class has one.
    pub control_plane_machines: Option<&'a Value>,
    /// Templates by the name of the MachineDeployment class.
    pub machine_deployment_templates: BTreeMap<String, WorkerTemplates>,
    /// Templates by the name of the MachinePool class.
    pub machine_pool_templates: BTreeMap<String, WorkerTemplates>,
}

impl<'a> Blueprint<'a> {
    /// The MachineDeployments of the topology, in its order.
    pub fn machine_deployments(&self) -> &'a [MachineDeploymentTopology] {
        self.topology
            .workers
            .as_ref()
            .map(|workers| workers.machine_deployments.as_slice())
            .unwrap_or_default()
    }

    /// The MachinePools of the topology, in its order.
    pub fn machine_pools(&self) -> &'a [MachinePoolTopology] {
        self.topology.workers.as_ref().map(|workers| workers.machine_pools.as_slice()).unwrap_or_default()
    }

    /// A MachineDeployment of the topology by name.
    pub fn machine_deployment(&self, name: &str) -> Option<&'a MachineDeploymentTopology> {
        self.machine_deployments().iter().find(|one| one.name == name)
    }

    /// A MachinePool of the topology by name.
    pub fn machine_pool(&self, name: &str) -> Option<&'a MachinePoolTopology> {
        self.machine_pools().iter().find(|one| one.name == name)
    }

    /// A class of MachineDeployments by name.
    pub fn machine_deployment_class(&self, name: &str) -> Option<&'a MachineDeploymentClass> {
        let workers = self.class.spec.workers.as_ref()?;
        workers.machine_deployments.iter().find(|one| one.class == name)
    }

    /// A class of MachinePools by name.
    pub fn machine_pool_class(&self, name: &str) -> Option<&'a MachinePoolClass> {
        let workers = self.class.spec.workers.as_ref()?;
        workers.machine_pools.iter().find(|one| one.class == name)
    }
}
