//! A class with its templates and a cluster of it, for tests.

use crate::blueprint::{Blueprint, WorkerTemplates};
use crate::contract::Contract;
use crate::desired::{ComputeError, Computed, Input, compute};
use crate::names::Suffixes;
use crate::object;
use crate::state::{Current, CurrentWorkers, Desired, DesiredWorkers};
use crate::upgrade::{Hooks, Plans};
use crate::variables::definitions_of;
use capstan_api::core::{Cluster, ClusterClass};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
pub(crate) const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1beta2";
pub(crate) const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta2";

/// A class, a cluster and its objects.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) class: ClusterClass,
    pub(crate) cluster: Cluster,
    pub(crate) current: Current,
    pub(crate) contract: Contract,
    pub(crate) hooks: Hooks,
    pub(crate) upgrade_plan: Option<Plans>,
    numbers: u64,
}

/// A reference to a template of the class.
pub(crate) fn template_ref(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"templateRef": {"apiVersion": api_version, "kind": kind, "name": name}})
}

fn template(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name, "namespace": "default", "uid": "u", "resourceVersion": "7",
            "labels": {"of-template": name},
            "annotations": {object::LAST_APPLIED: "{}"},
            "ownerReferences": [{"kind": "ClusterClass", "name": "class"}],
        },
        "spec": {"template": {"metadata": {"labels": {"of-objects": name}}, "spec": spec}},
    })
}

/// What the class of [`World`] says.
pub(crate) fn class() -> Value {
    let worker = |class: &str| {
        json!({
            "class": class,
            "metadata": {"labels": {"class": class, "both": "class"}, "annotations": {"class": class}},
            "bootstrap": template_ref(BOOTSTRAP, "BootTemplate", "boot"),
            "infrastructure": template_ref(INFRASTRUCTURE, "MachineTemplate", "machines"),
        })
    };
    let mut pool = worker("pool");
    pool["infrastructure"] = template_ref(INFRASTRUCTURE, "PoolTemplate", "pools");
    let mut control_plane = template_ref(CONTROL_PLANE, "PlaneTemplate", "plane");
    control_plane["machineInfrastructure"] = template_ref(INFRASTRUCTURE, "MachineTemplate", "machines");
    control_plane["metadata"] = json!({"labels": {"class": "plane", "both": "class"}});
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": "class", "namespace": "default"},
        "spec": {
            "infrastructure": template_ref(INFRASTRUCTURE, "NetworkTemplate", "network"),
            "controlPlane": control_plane,
            "workers": {"machineDeployments": [worker("small"), worker("large")], "machinePools": [pool]},
        },
    })
}

/// What the Cluster of [`World`] says.
pub(crate) fn cluster() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "default", "uid": "cluster-uid"},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.1.0.0/16"]}, "serviceDomain": "cluster.local"},
            "topology": {
                "classRef": {"name": "class"},
                "version": "v1.30.0",
                "controlPlane": {"replicas": 3, "metadata": {"labels": {"both": "topology"}}},
                "workers": {
                    "machineDeployments": [
                        {"class": "small", "name": "a", "replicas": 2,
                         "metadata": {"labels": {"both": "topology", "own": "a"}}},
                        {"class": "large", "name": "b", "replicas": 1},
                    ],
                    "machinePools": [{"class": "pool", "name": "p", "replicas": 4}],
                },
            },
        },
    })
}

impl World {
    /// The class and the cluster, without objects.
    pub(crate) fn new() -> World {
        World::of(class(), cluster())
    }

    /// This class and this cluster, without objects. Definitions of variables are set as the controller of classes does.
    pub(crate) fn of(class: Value, cluster: Value) -> World {
        let mut class: ClusterClass = serde_json::from_value(class).expect("a ClusterClass");
        let variables = definitions_of(&class.spec.variables, &[]);
        class.status.get_or_insert_default().variables = variables;
        World {
            class,
            cluster: serde_json::from_value(cluster).expect("a Cluster"),
            current: Current::default(),
            contract: Contract::V1Beta2,
            hooks: Hooks::default(),
            upgrade_plan: None,
            numbers: 0,
        }
    }

    /// Changes the class as JSON.
    pub(crate) fn with_class(change: impl FnOnce(&mut Value)) -> World {
        let mut class = class();
        change(&mut class);
        World::of(class, cluster())
    }

    /// Changes the Cluster as JSON.
    pub(crate) fn change_cluster(&mut self, change: impl FnOnce(&mut Value)) {
        let mut cluster = serde_json::to_value(&self.cluster).expect("JSON");
        change(&mut cluster);
        self.cluster = serde_json::from_value(cluster).expect("a Cluster");
    }

    pub(crate) fn set_version(&mut self, version: &str) {
        self.change_cluster(|cluster| cluster["spec"]["topology"]["version"] = json!(version));
    }

    /// Computes the objects.
    pub(crate) fn compute(&mut self) -> Result<Computed, ComputeError> {
        let network = template(INFRASTRUCTURE, "NetworkTemplate", "network", &json!({"region": "eu"}));
        let plane = template(
            CONTROL_PLANE,
            "PlaneTemplate",
            "plane",
            &json!({"config": {"args": ["x"]}, "machineTemplate": {"metadata": {"labels": {"of-machines": "plane"}}}}),
        );
        let machines = template(INFRASTRUCTURE, "MachineTemplate", "machines", &json!({"size": "s"}));
        let boot = template(BOOTSTRAP, "BootTemplate", "boot", &json!({"files": []}));
        let pools = template(INFRASTRUCTURE, "PoolTemplate", "pools", &json!({"size": "s"}));
        let of_deployments = WorkerTemplates { bootstrap: boot.clone(), infrastructure: machines.clone() };
        let of_pools = WorkerTemplates { bootstrap: boot, infrastructure: pools };
        let topology = self.cluster.spec.topology.clone().expect("a topology");
        let blueprint = Blueprint {
            class: &self.class,
            topology: &topology,
            infrastructure_cluster: &network,
            control_plane: &plane,
            control_plane_machines: self
                .class
                .spec
                .control_plane
                .machine_infrastructure
                .as_ref()
                .map(|_| &machines),
            machine_deployment_templates: BTreeMap::from([
                ("small".to_string(), of_deployments.clone()),
                ("large".to_string(), of_deployments),
            ]),
            machine_pool_templates: BTreeMap::from([("pool".to_string(), of_pools)]),
        };
        let numbers = &mut self.numbers;
        let mut suffixes = || {
            *numbers += 1;
            *numbers
        };
        let suffixes: &mut dyn Suffixes = &mut suffixes;
        let input = Input {
            cluster: &self.cluster,
            blueprint: &blueprint,
            current: &self.current,
            contract: self.contract,
            upgrade_plan: self.upgrade_plan.clone(),
            hooks: &self.hooks,
        };
        compute(&input, suffixes)
    }

    /// Computes the objects, which must succeed.
    pub(crate) fn computed(&mut self) -> Computed {
        self.compute().expect("the objects can be computed")
    }

    /// Writes the desired objects, as a controller does, with a control plane whose status has this version.
    pub(crate) fn apply(&mut self, computed: &Computed, status_version: &str) {
        let Desired { cluster, infrastructure_cluster, control_plane, machine_deployments, machine_pools } =
            computed.desired.clone();
        self.change_cluster(|object| {
            object["metadata"]["labels"] = json!(cluster.labels);
            object["metadata"]["annotations"] = json!(cluster.annotations);
            object["spec"]["infrastructureRef"] = cluster.infrastructure_ref.clone();
            object["spec"]["controlPlaneRef"] = cluster.control_plane_ref.clone();
        });
        let mut object = control_plane.object;
        object["status"] = json!({"versions": [{"version": status_version}]});
        let progress = &computed.progress;
        self.current.infrastructure_cluster = Some(infrastructure_cluster);
        self.current.control_plane = Some(object);
        self.current.control_plane_machines = control_plane.machine_template;
        write(&mut self.current.machine_deployments, machine_deployments, &progress.machine_deployments);
        write(&mut self.current.machine_pools, machine_pools, &progress.machine_pools);
    }

    /// All machines have the versions of their groups.
    pub(crate) fn settle(&mut self) {
        let groups =
            self.current.machine_deployments.values_mut().chain(self.current.machine_pools.values_mut());
        groups.for_each(|group| group.is_upgrading = false);
    }

    /// The versions of the control plane and of all groups of workers.
    pub(crate) fn versions(&self) -> Vec<String> {
        let control_plane =
            self.current.control_plane.iter().map(|object| object::text(object, &["spec", "version"]));
        let groups = self.current.machine_deployments.values().chain(self.current.machine_pools.values());
        let path = ["spec", "template", "spec", "version"];
        let workers = groups.map(|group| object::text(&group.object, &path));
        control_plane.chain(workers).map(ToString::to_string).collect()
    }
}

/// Writes groups of workers that are not pending.
fn write(
    current: &mut BTreeMap<String, CurrentWorkers>,
    desired: BTreeMap<String, DesiredWorkers>,
    progress: &crate::upgrade::WorkersProgress,
) {
    for (name, workers) in desired {
        let is_upgrading = progress.upgrading.contains(object::name(&workers.object));
        if progress.pending_create.contains(&name) {
            continue;
        }
        let written = CurrentWorkers {
            object: workers.object,
            bootstrap: Some(workers.bootstrap),
            infrastructure: Some(workers.infrastructure),
            is_upgrading,
        };
        current.insert(name, written);
    }
}
