//! Workers are changed in place through Cluster API's own hooks: by upstream's core with its gates on, and by ours on a
//! real plane and on the embedded one. The same Machines, hosts and Nodes before and after; and what cannot be made in
//! place is refused by name, and nothing is touched.

#![cfg(test)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_api::core::{Machine, MachineDeployment, MachineSet};
use capstan_testkit::{FeatureGates, Manager, RealPlane, UpstreamManagers, eventually, install_crds};
use capstan_tests::{Running, capstan, condition, is_refused, namespaced, not_true};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(300);
const OLD: &str = "v1.36.0+k3s1";
const NEW: &str = "v1.36.1+k3s1";
const CLUSTER: &str = "hooks";
const WORKERS: &str = "hooks-workers";
const CORE: &str = "cluster.x-k8s.io/v1beta2";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1alpha1";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_core_changes_workers_in_place() {
    let folder = Folder::new();
    let plane = RealPlane::start().await.unwrap();
    install_crds(&plane.client(), &capstan_api::crd::all()).await.unwrap();
    let gates: FeatureGates =
        ["RuntimeSDK", "InPlaceUpdates"].map(|gate| (gate.to_owned(), true)).into_iter().collect();
    let core = UpstreamManagers::start_on(plane.kubeconfig(), &[Manager::Core], &gates).await.unwrap();
    let providers = "infrastructure,bootstrap,control-plane,hooks";
    let manager = folder.manager_with(plane.kubeconfig(), providers, "--hooks-review-tokens");
    let user = User { client: plane.client() };
    user.makes_a_cluster().await.unwrap();
    let before = user.machines().await.unwrap();
    user.waits_for_hooks_that_refuse_its_core(&core, &before).await.unwrap();
    manager.kill().unwrap();
    let mut manager = folder.manager(plane.kubeconfig(), providers);

    // With a surge upstream would make a machine and delete another.
    let surge = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let change = json!({"rollout": {"strategy": surge}, "template": {"spec": {"version": NEW}}});
    let field = "MachineDeployment hooks-workers spec.rollout.strategy.rollingUpdate.maxSurge";
    is_refused(&user.client, WORKERS, &change, field).await.unwrap();
    let calm = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    user.asks_for(&json!({"rollout": {"strategy": calm}})).await.unwrap();
    user.changes_in_place(&before).await.unwrap();
    user.cannot_have_it_all(&before).await.unwrap();
    user.mends_what_failed(&before).await.unwrap();
    let said = core.log_lines(&["CapstanConfigTemplate hooks-impossible spec.template.spec.distro"]);
    assert!(!said.is_empty(), "upstream's core does not say why");
    user.deletes_the_cluster().await.unwrap();
    manager.ensure_running().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn our_core_changes_workers_in_place_on_a_real_plane() {
    let folder = Folder::new();
    let plane = RealPlane::start().await.unwrap();
    install_crds(&plane.client(), &capstan_api::crd::all()).await.unwrap();
    let mut manager = folder.manager(plane.kubeconfig(), "all");
    let user = User { client: plane.client() };
    under_our_core(&user).await.unwrap();
    manager.ensure_running().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn our_core_changes_workers_in_place_on_the_embedded_plane() {
    let folder = Folder::new();
    let mut plane = folder.up();
    let user = eventually(DEADLINE, "the plane to answer", async || {
        let client = client(Kubeconfig::read_from(folder.path("data/admin.kubeconfig"))?).await?;
        let user = User { client };
        // All kinds are there.
        user.of(BOOTSTRAP, "CapstanConfigTemplate").list(&ListParams::default()).await?;
        user.of(CORE, "MachineDeployment").list(&ListParams::default()).await?;
        Ok(user)
    });
    let user = user.await.unwrap();
    under_our_core(&user).await.unwrap();
    plane.ensure_running().unwrap();
}

async fn under_our_core(user: &User) -> Result<()> {
    user.makes_a_cluster().await?;
    let before = user.machines().await?;
    user.asks_for(&json!({"template": {"spec": {"version": NEW}}})).await?;
    user.changes_in_place(&before).await?;
    user.cannot_have_it_all(&before).await?;
    user.mends_what_failed(&before).await?;
    user.deletes_the_cluster().await
}

/// Where one plane keeps everything.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("capstan-hooks-").tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn up(&self) -> Running {
        let data = self.path("data");
        let args = ["up", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
        Running::start(&args, &self.path("capstan.log")).unwrap()
    }

    /// Upstream's core has neither a client certificate by default nor a token.
    fn manager(&self, kubeconfig: &Path, controllers: &str) -> Running {
        self.manager_with(kubeconfig, controllers, "--hooks-allow-unauthenticated")
    }

    fn manager_with(&self, kubeconfig: &Path, controllers: &str, callers: &str) -> Running {
        let (data, kubeconfig) = (self.path("data"), kubeconfig.to_str().unwrap());
        let folder = ["--data-dir", data.to_str().unwrap()];
        let args = ["manager", "--kubeconfig", kubeconfig, "--controllers", controllers, callers];
        Running::start(&[&args[..], &folder[..]].concat(), &self.path("capstan.log")).unwrap()
    }
}

/// What must stay the same: the Machine, its host and its Node, by the Machine's name.
type Machines = BTreeMap<String, (String, String, String)>;

/// Somebody with a client.
struct User {
    client: Client,
}

impl User {
    fn of(&self, group_version: &str, kind: &str) -> Api<DynamicObject> {
        namespaced(&self.client, "default", group_version, kind)
    }

    fn deployments(&self) -> Api<MachineDeployment> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn makes_a_cluster(&self) -> Result<()> {
        let pool = json!({
            "apiVersion": INFRASTRUCTURE, "kind": "HostPool", "metadata": {"name": "simulated"},
            // One more than needed: who would replace a machine, could.
            "spec": {"replicas": 4, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 20}},
        });
        self.apply(&pool).await?;
        let version = ["--kubernetes-version", OLD];
        let size = ["--control-plane-machine-count", "1", "--worker-machine-count", "2"];
        let manifests = capstan(&[&["generate", "cluster", CLUSTER], &version[..], &size[..]].concat())?;
        for document in manifests.split("\n---\n") {
            self.apply(&serde_saphyr::from_str(document)?).await?;
        }
        eventually(DEADLINE, "the cluster to be available with all its machines", async || {
            let cluster = self.of(CORE, "Cluster").get(CLUSTER).await?;
            ensure!(condition(&cluster, "Available") == Some("True"), not_true(&cluster));
            ensure!(self.machines().await?.len() == 3, "not all are Nodes");
            Ok(())
        })
        .await?;
        self.until_rolled_out(OLD, WORKERS).await
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        let text = |field: &str| object[field].as_str().context("a text").map(str::to_owned);
        let api = self.of(&text("apiVersion")?, &text("kind")?);
        let name = object["metadata"]["name"].as_str().context("a name")?;
        let parameters = PatchParams::apply("user").force();
        eventually(DEADLINE, &format!("{name} to be taken"), async || {
            api.patch(name, &parameters, &Patch::Apply(object)).await?;
            Ok(())
        })
        .await
    }

    async fn asks_for(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.deployments().patch(WORKERS, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    async fn makes_a_setup(&self, name: &str, spec: &Value) -> Result<()> {
        let template: DynamicObject = serde_json::from_value(json!({
            "apiVersion": BOOTSTRAP, "kind": "CapstanConfigTemplate", "metadata": {"name": name},
            "spec": {"template": {"spec": spec}},
        }))?;
        self.of(BOOTSTRAP, "CapstanConfigTemplate").create(&PostParams::default(), &template).await?;
        Ok(())
    }

    /// A core that the hooks refuse neither changes nor replaces a machine.
    async fn waits_for_hooks_that_refuse_its_core(
        &self,
        core: &UpstreamManagers,
        before: &Machines,
    ) -> Result<()> {
        self.asks_for(&json!({"template": {"spec": {"version": NEW}}})).await?;
        eventually(DEADLINE, "three calls to be refused", async || {
            let refused = core.log_lines(&["with status code 401"]).len();
            ensure!(refused >= 3, "{refused} lines of the log say so");
            Ok(())
        })
        .await?;
        ensure!(self.machines().await? == *before, "{before:?} became {:?}", self.machines().await?);
        self.asks_for(&json!({"template": {"spec": {"version": OLD}}})).await?;
        self.until_rolled_out(OLD, WORKERS).await
    }

    /// The version that was asked for reaches the workers in place once the control plane has it, and so does a change of
    /// their configuration.
    async fn changes_in_place(&self, before: &Machines) -> Result<()> {
        let control_planes = self.of("controlplane.cluster.x-k8s.io/v1alpha1", "CapstanControlPlane");
        let version = json!({"spec": {"version": NEW}});
        control_planes.patch("hooks-control-plane", &PatchParams::default(), &Patch::Merge(&version)).await?;
        self.until_rolled_out(NEW, WORKERS).await?;
        self.nodes_run(NEW).await?;
        ensure!(self.machines().await? == *before, "{before:?} became {:?}", self.machines().await?);

        let files = json!([{"path": "/etc/motd", "content": "changed"}]);
        let setup = json!({"distro": "k3s", "settings": {"debug": true}, "files": files});
        self.makes_a_setup("hooks-debug", &setup).await?;
        self.asks_for(&json!({"template": {"spec": {"bootstrap": {"configRef": {"name": "hooks-debug"}}}}}))
            .await?;
        self.until_rolled_out(NEW, "hooks-debug").await?;
        for config in self.workers_of(BOOTSTRAP, "CapstanConfig").await? {
            ensure!(config.data["spec"]["settings"]["debug"] == true, "{:?}", config.data);
        }
        ensure!(self.machines().await? == *before, "{before:?} became {:?}", self.machines().await?);
        Ok(())
    }

    /// What cannot be made in place is refused, and can be taken back.
    async fn cannot_have_it_all(&self, before: &Machines) -> Result<()> {
        self.makes_a_setup("hooks-impossible", &json!({"distro": "rke2"})).await?;
        let refers_to =
            |name: &str| json!({"template": {"spec": {"bootstrap": {"configRef": {"name": name}}}}});
        let field = "CapstanConfigTemplate hooks-impossible spec.template.spec.distro";
        is_refused(&self.client, WORKERS, &refers_to("hooks-impossible"), field).await?;
        self.asks_for(&refers_to("hooks-debug")).await?;
        self.until_rolled_out(NEW, "hooks-debug").await?;
        ensure!(self.machines().await? == *before, "{before:?} became {:?}", self.machines().await?);
        Ok(())
    }

    /// A change that fails on the machine is told with what the machine printed, and another one takes its place.
    async fn mends_what_failed(&self, before: &Machines) -> Result<()> {
        let setup =
            |program: &str| json!({"distro": "k3s", "before": [{"name": "tune", "command": [program]}]});
        self.makes_a_setup("hooks-wrong", &setup("tune-in")).await?;
        self.makes_a_setup("hooks-right", &setup("true")).await?;
        let refers_to =
            |name: &str| json!({"template": {"spec": {"bootstrap": {"configRef": {"name": name}}}}});
        self.asks_for(&refers_to("hooks-wrong")).await?;
        eventually(DEADLINE, "the update to fail", async || {
            let reports =
                self.of("agent.capstan.dev/v1alpha1", "MachineReport").list(&ListParams::default()).await?;
            let failed = reports.iter().any(|report| report.data["status"]["phase"] == "Failed");
            ensure!(failed, "no machine says so");
            let condition = self.workers().await?.into_iter().find_map(|machine| {
                let conditions = machine.status?.conditions;
                conditions.into_iter().find(|condition| condition.reason == "InPlaceUpdateFailed")
            });
            let condition = condition.context("no Machine says so")?;
            // Upstream's core sends everybody to its log.
            let logged = condition.message.contains("please check controller logs");
            ensure!(logged || condition.message.contains("tune-in: not found"), "{}", condition.message);
            Ok(())
        })
        .await?;
        self.asks_for(&refers_to("hooks-right")).await?;
        self.until_rolled_out(NEW, "hooks-right").await?;
        ensure!(self.machines().await? == *before, "{before:?} became {:?}", self.machines().await?);
        Ok(())
    }

    /// Waits until all workers are of this version and this setup, available and up to date, in one MachineSet, and
    /// nobody is at them.
    async fn until_rolled_out(&self, version: &str, setup: &str) -> Result<()> {
        eventually(DEADLINE, "the workers to be rolled out", async || {
            let deployment = self.deployments().get(WORKERS).await?;
            let status = deployment.status.clone().unwrap_or_default();
            ensure!(status.observed_generation == deployment.metadata.generation, "not looked at");
            let counts = [status.replicas, status.available_replicas, status.up_to_date_replicas];
            let conditions = status.conditions.iter().map(|conditions| {
                format!("{} {}: {}", conditions.type_, conditions.status, conditions.message)
            });
            ensure!(counts == [Some(2); 3], "{counts:?} {:#?}", conditions.collect::<Vec<_>>());
            let sets: Api<MachineSet> = Api::namespaced(self.client.clone(), "default");
            let sets = sets.list(&ListParams::default()).await?.items;
            ensure!(sets.len() == 1, "{} MachineSets", sets.len());
            for machine in self.workers().await? {
                let name = machine.name_any();
                ensure!(
                    machine.spec.version.as_deref() == Some(version),
                    "{name} is {:?}",
                    machine.spec.version
                );
                let marked =
                    machine.annotations().keys().any(|key| key.contains("in-place") || key.contains("hooks"));
                ensure!(!marked, "{name} is at it: {:?}", machine.annotations());
            }
            for config in self.workers_of(BOOTSTRAP, "CapstanConfig").await? {
                let made_from = config.annotations().get("cluster.x-k8s.io/cloned-from-name");
                ensure!(made_from.is_some_and(|name| name == setup), "made from {made_from:?}");
            }
            Ok(())
        })
        .await
    }

    async fn workers(&self) -> Result<Vec<Machine>> {
        let api: Api<Machine> = Api::namespaced(self.client.clone(), "default");
        let workers = ListParams::default().labels("cluster.x-k8s.io/deployment-name=hooks-workers");
        Ok(api.list(&workers).await?.items)
    }

    async fn workers_of(&self, group_version: &str, kind: &str) -> Result<Vec<DynamicObject>> {
        let workers = ListParams::default().labels("cluster.x-k8s.io/deployment-name=hooks-workers");
        let found = self.of(group_version, kind).list(&workers).await?.items;
        ensure!(found.len() == 2, "{} of {kind}", found.len());
        Ok(found)
    }

    /// Every Machine that has a host and a Node.
    async fn machines(&self) -> Result<Machines> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), "default");
        let nodes = self.nodes().await?;
        let mut all = Machines::new();
        for machine in machines.list(&ListParams::default()).await? {
            let node = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
            let Some(node) = node.and_then(|node| nodes.iter().find(|is| is.name_any() == node.name)) else {
                continue;
            };
            let infrastructure = &machine.spec.infrastructure_ref.name;
            let host = self.of(INFRASTRUCTURE, "HostMachine").get(infrastructure).await?;
            let host = host.data["spec"]["hostName"].as_str().unwrap_or_default().to_owned();
            let uid = |uid: Option<String>| uid.unwrap_or_default();
            all.insert(machine.name_any(), (uid(machine.uid()), host, uid(node.uid())));
        }
        Ok(all)
    }

    /// The Nodes, asked of the workload cluster itself.
    async fn nodes(&self) -> Result<Vec<Node>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "default");
        let secret = secrets.get("hooks-kubeconfig").await?;
        let kubeconfig = secret.data.as_ref().and_then(|data| data.get("value")).context("no kubeconfig")?;
        let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(&kubeconfig.0)?)?;
        let nodes: Api<Node> = Api::all(client(kubeconfig).await?);
        Ok(nodes.list(&ListParams::default()).await?.items)
    }

    async fn nodes_run(&self, version: &str) -> Result<()> {
        for node in self.nodes().await? {
            let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
            let runs = info.map(|info| info.kubelet_version.as_str());
            ensure!(runs == Some(version), "{} runs {runs:?}", node.name_any());
        }
        Ok(())
    }

    async fn deletes_the_cluster(&self) -> Result<()> {
        self.of(CORE, "Cluster").delete(CLUSTER, &DeleteParams::default()).await?;
        eventually(DEADLINE, "everything to be gone and every host to be clean", async || {
            for kind in ["Cluster", "MachineSet", "Machine"] {
                let left = self.of(CORE, kind).list(&ListParams::default()).await?.items;
                ensure!(left.is_empty(), "{} of {kind} are left", left.len());
            }
            for host in self.of(INFRASTRUCTURE, "Host").list(&ListParams::default()).await? {
                ensure!(
                    host.data["status"]["state"] == "Available",
                    "{}: {}",
                    host.name_any(),
                    host.data["status"]
                );
            }
            Ok(())
        })
        .await
    }
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
