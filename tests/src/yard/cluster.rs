//! A cluster of a yard, from its owner's view: objects on the management plane, and Nodes and Pods through its
//! kubeconfig.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use capstan_api::conditions::{self, ConditionStatus};
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Machine, MachineDeployment};
use capstan_testkit::{eventually, kubectl};
use capstan_tools::TEST_IMAGE;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};

use super::{API_SERVER, DEADLINE, Yard, document};
use crate::{condition, namespaced, not_true};

const CORE: &str = "cluster.x-k8s.io/v1beta2";

/// Handle to a cluster by its name. The cluster need not exist.
pub struct Cluster<'a> {
    yard: &'a Yard,
    name: String,
}

/// The identity of a Machine that must stay the same across in-place changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// UID of the Machine.
    pub machine: String,
    /// Name of its Host.
    pub host: String,
    /// UID of its Node.
    pub node: String,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(yard: &'a Yard, name: &str) -> Self {
        Self { yard, name: name.to_owned() }
    }

    /// The yard that it is in.
    pub fn yard(&self) -> &Yard {
        self.yard
    }

    /// Name of its control plane.
    pub fn control_plane(&self) -> String {
        format!("{}-control-plane", self.name)
    }

    /// Name of its MachineDeployment of workers.
    pub fn workers(&self) -> String {
        format!("{}-workers", self.name)
    }

    /// Applies the output of `capstan generate cluster`, with the k3s settings for a network without internet access.
    pub async fn make(&self, servers: usize, workers: usize, version: &str) -> Result<()> {
        let (servers, workers) = (servers.to_string(), workers.to_string());
        let size = ["--control-plane-machine-count", &servers, "--worker-machine-count", &workers];
        let words = [&["generate", "cluster", &self.name, "--kubernetes-version", version], &size[..]];
        let manifests = crate::capstan(&words.concat())?;
        for text in manifests.split("\n---\n") {
            let mut object = document(text)?;
            let role = if object["metadata"]["name"] == self.workers() { "worker" } else { "server" };
            match object["kind"].as_str() {
                Some("CapstanControlPlane") => object["spec"]["config"]["settings"] = settings(),
                Some("Cluster") => object["spec"]["clusterNetwork"]["apiServerPort"] = json!(API_SERVER),
                Some("HostCluster") => object["spec"]["controlPlaneEndpoint"] = self.yard.endpoint().await?,
                Some("HostMachineTemplate") => {
                    let selector = json!({"matchLabels": {"role": role}});
                    object["spec"]["template"]["spec"]["hostSelector"] = selector;
                }
                _ => {}
            }
            self.apply(&object).await?;
        }
        Ok(())
    }

    /// Applies an object.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        let text = |field: &str| object[field].as_str().context("a text").map(str::to_owned);
        let api = namespaced(&self.yard.client(), "default", &text("apiVersion")?, &text("kind")?);
        let name = object["metadata"]["name"].as_str().context("a name")?;
        // Upstream's webhooks may need a moment after their start.
        eventually(DEADLINE, &format!("{name} to be taken"), async || {
            api.patch(name, &PatchParams::apply("user").force(), &Patch::Apply(object)).await?;
            Ok(())
        })
        .await
    }

    /// Changes the spec of the control plane, and waits until a controller has observed the change, so that later
    /// conditions are about it.
    pub async fn change_control_plane(&self, spec: Value) -> Result<()> {
        let api: Api<CapstanControlPlane> = self.yard.api();
        let patch = json!({ "spec": spec });
        let changed = api.patch(&self.control_plane(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        eventually(DEADLINE, "the control plane's change to be seen", async || {
            let status = api.get(&self.control_plane()).await?.status.unwrap_or_default();
            ensure!(status.observed_generation >= changed.metadata.generation, "not yet");
            Ok(())
        })
        .await
    }

    /// Changes the spec of the MachineDeployment of workers, and waits until a controller has observed the change.
    pub async fn change_workers(&self, spec: Value) -> Result<()> {
        let api: Api<MachineDeployment> = self.yard.api();
        let patch = json!({ "spec": spec });
        let changed = api.patch(&self.workers(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        eventually(DEADLINE, "the workers' change to be seen", async || {
            let status = api.get(&self.workers()).await?.status.unwrap_or_default();
            ensure!(status.observed_generation >= changed.metadata.generation, "not yet");
            Ok(())
        })
        .await
    }

    /// Waits until the cluster is available with this number of machines, all with this version and up to date, with
    /// ready Nodes and no change in progress.
    pub async fn until_ready(&self, machines: usize, version: &str) -> Result<()> {
        let waited = eventually(DEADLINE, "the cluster to stand", async || {
            let cluster: DynamicObject =
                namespaced(&self.yard.client(), "default", CORE, "Cluster").get(&self.name).await?;
            ensure!(condition(&cluster, "Available") == Some("True"), not_true(&cluster));
            ensure!(condition(&cluster, "RollingOut") != Some("True"), "it is being rolled out");
            let nodes = self.nodes().await?;
            ensure!(nodes.len() == machines, "{} nodes", nodes.len());
            for node in &nodes {
                let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
                let runs = info.map(|info| info.kubelet_version.as_str());
                ensure!(runs == Some(version), "{} runs {runs:?}", node.name_any());
                ensure!(is_ready(node), "{} is not ready", node.name_any());
                let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
                ensure!(!cordoned, "{} takes no pods", node.name_any());
            }
            let found = self.machines().await?;
            ensure!(found.len() == machines, "{} machines", found.len());
            for machine in &found {
                let object = serde_json::from_value::<DynamicObject>(serde_json::to_value(machine)?)?;
                for type_ in ["Ready", "UpToDate", "NodeReady"] {
                    ensure!(
                        condition(&object, type_) == Some("True"),
                        "{}: {}",
                        machine.name_any(),
                        not_true(&object)
                    );
                }
                ensure!(machine.spec.version.as_deref() == Some(version), "{} is older", machine.name_any());
            }
            Ok(())
        });
        match waited.await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.yard.diagnostics().await)),
        }
    }

    /// Its Machines.
    pub async fn machines(&self) -> Result<Vec<Machine>> {
        let all = self.yard.api::<Machine>().list(&ListParams::default()).await?;
        Ok(all.items.into_iter().filter(|machine| machine.spec.cluster_name == self.name).collect())
    }

    /// Waits for a condition of the Machine on a Host.
    pub async fn until_condition(&self, host: &str, kind: &str, status: ConditionStatus) -> Result<()> {
        let what = format!("{kind} of the Machine on {host} to be {status:?}");
        eventually(DEADLINE, &what, async || {
            let machine = self.machine_on(host).await?;
            let found = conditions::get(&machine, kind);
            ensure!(found.is_some_and(|found| found.status == status), "{found:?}");
            Ok(())
        })
        .await
    }

    /// The Machine on a Host.
    pub async fn machine_on(&self, host: &str) -> Result<Machine> {
        let kept = self.kept().await?;
        let name = kept.iter().find(|(_, kept)| kept.host == host).map(|(name, _)| name.clone());
        let name = name.with_context(|| format!("no Machine is on {host}"))?;
        Ok(self.yard.api::<Machine>().get(&name).await?)
    }

    /// The Host of a Machine.
    pub async fn host_of(&self, machine: &str) -> Result<String> {
        let machine = self.yard.api::<Machine>().get(machine).await?;
        let api = "infrastructure.cluster.x-k8s.io/v1alpha1";
        let hosts = namespaced(&self.yard.client(), "default", api, "HostMachine");
        let host = hosts.get(&machine.spec.infrastructure_ref.name).await?;
        Ok(host.data["spec"]["hostName"].as_str().context("no host")?.to_owned())
    }

    /// The identities of all Machines that must stay the same across in-place changes, by Machine name.
    pub async fn kept(&self) -> Result<BTreeMap<String, Kept>> {
        let nodes = self.nodes().await?;
        let mut kept = BTreeMap::new();
        for machine in self.machines().await? {
            let name = machine.name_any();
            let reference = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
            let node = reference.with_context(|| format!("{name} has no Node"))?.name.clone();
            let node = nodes.iter().find(|found| found.name_any() == node);
            let node = node.with_context(|| format!("the Node of {name} is not there"))?;
            let host = self.host_of(&name).await?;
            let uid = |uid: Option<String>| uid.context("no UID");
            kept.insert(name, Kept { machine: uid(machine.uid())?, host, node: uid(node.uid())? });
        }
        Ok(kept)
    }

    /// Its Nodes, from the cluster itself.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        Ok(nodes.list(&ListParams::default()).await?.items)
    }

    /// A client of the cluster, from the Secret with its kubeconfig.
    pub async fn client(&self) -> Result<Client> {
        let text = self.kubeconfig_text().await?;
        let config = Kubeconfig::from_yaml(&text)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    async fn kubeconfig_text(&self) -> Result<String> {
        let secret = self.yard.api::<Secret>().get(&format!("{}-kubeconfig", self.name)).await?;
        let value = secret.data.as_ref().and_then(|data| data.get("value")).context("no kubeconfig")?;
        Ok(std::str::from_utf8(&value.0)?.to_owned())
    }

    /// Runs the real kubectl with the cluster's own kubeconfig.
    pub async fn kubectl(&self, args: &[&str], input: Option<&str>) -> Result<String> {
        let path = self.kubeconfig_file().await?;
        kubectl(&path, args, input).await?.success()
    }

    /// Writes the cluster's own kubeconfig to a file.
    pub async fn kubeconfig_file(&self) -> Result<PathBuf> {
        let path = self.yard.folder().join(format!("{}.kubeconfig", self.name));
        std::fs::write(&path, self.kubeconfig_text().await?)?;
        Ok(path)
    }

    /// Runs a Pod on every Node, with a claim for a local volume: a folder of the machine.
    pub async fn run_pods(&self) -> Result<()> {
        for node in self.nodes().await? {
            let node = node.name_any();
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("on-{node}")},
                "spec": {
                    "nodeName": node, "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": "it", "image": TEST_IMAGE, "imagePullPolicy": "Never",
                        "command": ["sh", "-c", "test -e /data/born || date > /data/born; sleep 2147483647"],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }],
                    "volumes": [{"name": "data", "hostPath": {
                        "path": "/srv/kept", "type": "DirectoryOrCreate"}}],
                },
            });
            // The service account of a new namespace is not there at once.
            eventually(DEADLINE, "the pod to be taken", async || {
                self.kubectl(&["apply", "-f", "-"], Some(&pod.to_string())).await
            })
            .await?;
            eventually(DEADLINE, &format!("the pod on {node} to run"), async || {
                let name = format!("on-{node}");
                let pod: Value =
                    serde_json::from_str(&self.kubectl(&["get", "pod", &name, "-o", "json"], None).await?)?;
                ensure!(pod["status"]["containerStatuses"][0]["ready"] == true, "{}", pod["status"]);
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Deletes the cluster, and waits until it is deleted.
    pub async fn delete(&self) -> Result<()> {
        let clusters = namespaced(&self.yard.client(), "default", CORE, "Cluster");
        clusters.delete(&self.name, &DeleteParams::default()).await?;
        let waited = eventually(DEADLINE, "the cluster to be gone", async || {
            ensure!(clusters.get_opt(&self.name).await?.is_none(), "it is there");
            let left = self.machines().await?;
            ensure!(left.is_empty(), "{} machines are left", left.len());
            Ok(())
        });
        match waited.await {
            Ok(()) => Ok(()),
            Err(error) => bail!("{error:#}\n{}", self.yard.diagnostics().await),
        }
    }
}

/// The k3s settings: no components that k3s would download, and Pod traffic without tunnels.
pub fn settings() -> Value {
    json!({
        "disable": ["coredns", "servicelb", "traefik", "local-storage", "metrics-server"],
        "flannel-backend": "host-gw",
    })
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
