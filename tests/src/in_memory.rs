//! A cluster whose machines exist only in the memory of upstream's dev manager.

use serde_json::{Value, json};

const CORE: &str = "cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// The specification of the cluster.
#[derive(Clone, Debug)]
pub struct InMemoryCluster {
    /// Its namespace, which must exist.
    pub namespace: String,
    /// Its name, which is the prefix of the names of all its objects.
    pub name: String,
    /// The Kubernetes version of its machines.
    pub version: String,
    /// Number of machines of its KubeadmControlPlane.
    pub control_planes: u32,
    /// Number of machines of its MachineDeployment.
    pub workers: u32,
}

impl InMemoryCluster {
    /// All objects that a user would create, with all defaults set, because no webhook sets them.
    pub fn objects(&self) -> Vec<Value> {
        vec![
            self.infrastructure(),
            self.machine_template("control-plane"),
            self.machine_template("worker"),
            self.bootstrap_template(),
            self.control_plane(),
            self.machine_deployment(),
            self.cluster(),
        ]
    }

    /// The same cluster as a ClusterClass with its templates, and a Cluster that is made from it.
    pub fn objects_of_class(&self) -> Vec<Value> {
        let mut infrastructure = self.infrastructure()["spec"].take();
        infrastructure = json!({ "template": { "spec": infrastructure } });
        let mut control_plane = self.control_plane()["spec"].take();
        for set_by_topology in ["replicas", "version", "machineTemplate"] {
            control_plane.as_object_mut().into_iter().for_each(|spec| {
                spec.remove(set_by_topology);
            });
        }
        control_plane = json!({ "template": { "spec": control_plane } });
        let mut templates = [
            self.object(INFRASTRUCTURE, "DevClusterTemplate", &self.name, &infrastructure),
            self.object(CONTROL_PLANE, "KubeadmControlPlaneTemplate", &self.name, &control_plane),
            self.machine_template("class"),
            self.bootstrap_template(),
        ];
        for template in &mut templates {
            template["metadata"].as_object_mut().into_iter().for_each(|metadata| {
                metadata.remove("labels");
            });
        }
        let refs = templates.each_ref().map(|template| {
            let name = &template["metadata"]["name"];
            json!({ "templateRef": {
                "apiVersion": template["apiVersion"], "kind": template["kind"], "name": name,
            } })
        });
        let [infrastructure, mut control_plane, machines, bootstrap] = refs;
        let deletion = json!({ "nodeDeletionTimeoutSeconds": 10 });
        control_plane["machineInfrastructure"] = machines.clone();
        control_plane["deletion"] = deletion.clone();
        let worker = json!({
            "class": "worker",
            "bootstrap": bootstrap,
            "infrastructure": machines,
            "deletion": deletion,
            "rollout": { "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 },
            } },
        });
        let class = json!({
            "infrastructure": infrastructure,
            "controlPlane": control_plane,
            "workers": { "machineDeployments": [worker] },
        });
        let mut cluster = self.cluster();
        cluster["spec"] = json!({
            "clusterNetwork": cluster["spec"]["clusterNetwork"],
            "topology": {
                "classRef": { "name": self.name },
                "version": self.version,
                "controlPlane": { "replicas": self.control_planes },
                "workers": { "machineDeployments": [
                    { "class": "worker", "name": "w", "replicas": self.workers },
                ] },
            },
        });
        let class = self.object(CORE, "ClusterClass", &self.name, &class);
        templates.into_iter().chain([class, cluster]).collect()
    }

    /// The objects as one manifest.
    pub fn manifest(&self) -> String {
        json!({ "apiVersion": "v1", "kind": "List", "items": self.objects() }).to_string()
    }

    fn object(&self, group: &str, kind: &str, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("{group}/v1beta2"),
            "kind": kind,
            "metadata": {
                "namespace": self.namespace,
                "name": name,
                "labels": { "cluster.x-k8s.io/cluster-name": self.name },
            },
            "spec": spec,
        })
    }

    fn cluster(&self) -> Value {
        let spec = json!({
            "clusterNetwork": {
                "pods": { "cidrBlocks": ["10.244.0.0/16"] },
                "services": { "cidrBlocks": ["10.96.0.0/12"] },
                "serviceDomain": "cluster.local",
            },
            "infrastructureRef": reference(INFRASTRUCTURE, "DevCluster", &self.name),
            "controlPlaneRef": reference(CONTROL_PLANE, "KubeadmControlPlane", &self.name),
        });
        self.object(CORE, "Cluster", &self.name, &spec)
    }

    fn infrastructure(&self) -> Value {
        let spec = json!({ "backend": { "inMemory": {} } });
        let mut cluster = self.object(INFRASTRUCTURE, "DevCluster", &self.name, &spec);
        // Any will do: upstream v1.14 adds one of its own to the map, and panics if there is no map.
        cluster["metadata"]["annotations"] = json!({ "capstan.dev/made-for": "a test" });
        cluster
    }

    fn machine_template(&self, role: &str) -> Value {
        let prompt = json!({ "provisioning": { "startupDuration": "100ms" } });
        let backend =
            json!({ "inMemory": { "vm": prompt, "node": prompt, "etcd": prompt, "apiServer": prompt } });
        let spec = json!({ "template": { "spec": { "backend": backend } } });
        self.object(INFRASTRUCTURE, "DevMachineTemplate", &format!("{}-{role}", self.name), &spec)
    }

    fn bootstrap_template(&self) -> Value {
        let node = json!({ "criSocket": "unix:///run/containerd/containerd.sock" });
        let spec = json!({ "template": { "spec": { "joinConfiguration": { "nodeRegistration": node } } } });
        self.object(BOOTSTRAP, "KubeadmConfigTemplate", &format!("{}-worker", self.name), &spec)
    }

    fn control_plane(&self) -> Value {
        let template =
            reference(INFRASTRUCTURE, "DevMachineTemplate", &format!("{}-control-plane", self.name));
        let spec = json!({
            "replicas": self.control_planes,
            "version": self.version,
            "rollout": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } } },
            "machineTemplate": { "spec": {
                "infrastructureRef": template,
                "deletion": { "nodeDeletionTimeoutSeconds": 10 },
            } },
            "kubeadmConfigSpec": { "clusterConfiguration": { "apiServer": { "certSANs": ["127.0.0.1"] } } },
        });
        self.object(CONTROL_PLANE, "KubeadmControlPlane", &self.name, &spec)
    }

    fn machine_deployment(&self) -> Value {
        let name = format!("{}-worker", self.name);
        let labels = json!({
            "cluster.x-k8s.io/cluster-name": self.name,
            "cluster.x-k8s.io/deployment-name": name,
        });
        let spec = json!({
            "clusterName": self.name,
            "replicas": self.workers,
            "rollout": { "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 },
            } },
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "clusterName": self.name,
                    "version": self.version,
                    "bootstrap": { "configRef": reference(BOOTSTRAP, "KubeadmConfigTemplate", &name) },
                    "infrastructureRef": reference(INFRASTRUCTURE, "DevMachineTemplate", &name),
                    "deletion": { "nodeDeletionTimeoutSeconds": 10 },
                },
            },
        });
        self.object(CORE, "MachineDeployment", &name, &spec)
    }
}

fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({ "apiGroup": group, "kind": kind, "name": name })
}
