//! Machines on Hosts get the configuration of their Hosts, follow its changes, and wait while it is not known.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Machine;
use capstan_api::infrastructure::Host;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::external::Externals;
use capstan_controller::{Caches, Reconciler as _};
use capstan_controlplane::ControlPlane;
use capstan_testkit::install_crds;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use crate::world::{V1, Workload, World, config_of, tools};

const NAMESPACE: &str = "hosts";
const WORKERS: [(&str, &str); 2] = [("w0", "h0"), ("w1", "h1")];

struct Stage {
    plane: Arc<ApiServer>,
    world: World,
}

impl Stage {
    /// A cluster with a server and two workers. Each worker is on a Host, which does not exist yet.
    async fn new() -> Self {
        let plane = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
        let client = Client::new(plane.service(User::admin()), "default");
        install_crds(&client, &capstan_api::crd::all()).await.unwrap();
        let world = World::new(client, NAMESPACE).await;
        for (worker, host) in WORKERS {
            world.add_worker(worker).await;
            let on_host = json!({
                "metadata": {"finalizers": ["machine.cluster.x-k8s.io"]},
                "spec": {"providerID": format!("capstan://{NAMESPACE}/{host}/claim-{host}")},
            });
            world.patch::<Machine>(worker, &on_host).await.unwrap();
        }
        Self { plane, world }
    }

    async fn add_host(&self, name: &str, rack: &str, config: Value) {
        let (worker, _) = WORKERS.into_iter().find(|(_, host)| *host == name).unwrap();
        let claim = json!({"id": format!("claim-{name}"), "machineName": worker, "clusterName": "c"});
        let mut host = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
            "metadata": {"name": name, "labels": {"rack": rack}},
            "spec": {"simulated": {}, "claim": claim},
        });
        if config != json!({}) {
            host["spec"]["config"] = config;
        }
        self.world.make::<Host>(host).await;
    }

    fn manager(&self) -> ControlPlane<Workload> {
        let client = Client::new(self.plane.service(User::admin()), "default");
        let workload = self.world.workload.clone();
        let tools = tools(&workload);
        let (caches, externals) = (Caches::live(client.clone()), Externals::new(client));
        ControlPlane::new(caches, externals, workload, tools)
    }

    /// Reconciles until `done`.
    async fn until(&mut self, what: &str, done: impl AsyncFn(&World) -> Result<()>) {
        let manager = self.manager();
        let mut last = None;
        for _ in 0..200 {
            self.round(&manager).await.unwrap();
            match done(&self.world).await {
                Ok(()) => return,
                Err(not_yet) => last = Some(not_yet),
            }
        }
        panic!("waited in vain for {what}: {last:?}");
    }

    async fn round(&mut self, manager: &ControlPlane<Workload>) -> Result<()> {
        let object = self.world.control_plane().await?;
        manager.reconcile(Arc::new(object)).await?;
        self.world.tick().await
    }

    /// Until the machine has applied a plan with this setting.
    async fn has(&mut self, worker: &str, setting: &str, value: &Value) {
        let what = format!("{worker} with {setting} {value}");
        let has = async |world: &World| {
            let found = settings(world, worker).await?[setting].clone();
            ensure!(found == *value, "{worker} has {found}");
            let scene = world.scene().await?;
            let plan = scene.plan(worker)?.context("no plan")?;
            ensure!(scene.is_applied(worker, &plan), "{worker} has not applied its plan");
            Ok(())
        };
        self.until(&what, has).await;
    }

    async fn revision(&self, worker: &str) -> u64 {
        self.world.plan(worker).await.unwrap().unwrap().id().revision().get()
    }
}

/// `config.yaml` of a machine.
async fn settings(world: &World, worker: &str) -> Result<Value> {
    let Some(plan) = world.plan(worker).await? else { bail!("{worker} has no plan") };
    Ok(config_of(&plan))
}

/// Reason and message of the condition `Planned` of a machine's CapstanConfig.
async fn planned(world: &World, worker: &str) -> Result<(String, String)> {
    let status = world.api::<CapstanConfig>().get(worker).await?.status.unwrap_or_default();
    let found = status.conditions.into_iter().find(|condition| condition.type_ == "Planned");
    Ok(found.map(|condition| (condition.reason, condition.message)).unwrap_or_default())
}

fn node_ip(ip: &str) -> Value {
    json!({"settings": {"node-ip": ip}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_has_the_configuration_of_its_host() {
    let mut stage = Stage::new().await;
    let marks =
        json!({"labels": {"example.com/disk": "nvme"}, "taints": [{"key": "gpu", "effect": "NoSchedule"}]});
    let mut own = node_ip("10.0.0.10");
    own["labels"] = marks["labels"].clone();
    own["taints"] = marks["taints"].clone();
    stage.add_host("h0", "a", own).await;
    stage.add_host("h1", "b", json!({})).await;
    let entry = json!({"name": "rack", "selector": {"matchLabels": {"rack": "a"}},
        "config": {"settings": {"node-ip": "10.0.0.1", "flannel-iface": "eth1"}}});
    for (worker, _) in WORKERS {
        let spec = json!({"spec": {"hostConfig": [entry]}});
        stage.world.patch::<CapstanConfig>(worker, &spec).await.unwrap();
    }
    stage.has("w0", "node-ip", &json!("10.0.0.10")).await;
    stage.has("w1", "node-ip", &Value::Null).await;
    let first = settings(&stage.world, "w0").await.unwrap();
    assert_eq!(first["flannel-iface"], "eth1");
    assert_eq!(first["node-label"], json!(["example.com/disk=nvme"]));
    assert_eq!(first["node-taint"], json!(["gpu:NoSchedule"]));
    let on_node = stage.world.workload.marks("w0");
    assert_eq!(
        (json!(on_node.labels), json!(on_node.taints)),
        (marks["labels"].clone(), marks["taints"].clone())
    );

    // A change of the Host is a new plan for its machine, and for no other.
    let before = (stage.revision("w0").await, stage.revision("w1").await);
    stage.world.patch::<Host>("h0", &json!({"spec": {"config": node_ip("10.0.0.11")}})).await.unwrap();
    stage.has("w0", "node-ip", &json!("10.0.0.11")).await;
    assert_eq!((stage.revision("w0").await, stage.revision("w1").await), (before.0 + 1, before.1));
    // So is a change of its labels, if an entry selects it then.
    stage.world.patch::<Host>("h1", &json!({"metadata": {"labels": {"rack": "a"}}})).await.unwrap();
    stage.has("w1", "node-ip", &json!("10.0.0.1")).await;
    stage.world.patch::<Host>("h1", &json!({"metadata": {"labels": {"rack": "b"}}})).await.unwrap();
    stage.has("w1", "node-ip", &Value::Null).await;

    // Labels and taints reach the Node without a plan.
    let before = stage.revision("w0").await;
    stage
        .world
        .patch::<Host>("h0", &json!({"spec": {"config": {"labels": null, "taints": null}}}))
        .await
        .unwrap();
    let unmarked = async |world: &World| {
        ensure!(world.workload.marks("w0").labels.is_empty(), "w0 is still marked");
        Ok(())
    };
    stage.until("a Node without marks", unmarked).await;
    assert_eq!(stage.revision("w0").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_waits_for_a_host_that_cannot_be_read() {
    let mut stage = Stage::new().await;
    stage.add_host("h1", "b", json!({})).await;
    stage.has("w1", "node-ip", &Value::Null).await;
    let none = stage.world.plan("w0").await.unwrap();
    assert!(none.is_none(), "w0 has a plan that does not know its Host");
    stage.add_host("h0", "a", node_ip("10.0.0.10")).await;
    stage.has("w0", "node-ip", &json!("10.0.0.10")).await;
    let before = stage.revision("w0").await;

    // Whatever has become of the Host: its machine keeps the plan that it has.
    stage.world.patch::<Host>("h0", &json!({"spec": {"claim": null, "config": null}})).await.unwrap();
    let waits = async |world: &World| {
        let (reason, message) = planned(world, "w0").await?;
        ensure!(
            reason != "Planned" && message.contains("waits until Host h0 can be read"),
            "{reason}: {message}"
        );
        ensure!(message.contains("this machine has not claimed it"), "{message}");
        Ok(())
    };
    stage.until("the wait for the Host", waits).await;
    assert_eq!(stage.revision("w0").await, before);
    assert_eq!(settings(&stage.world, "w0").await.unwrap()["node-ip"], "10.0.0.10");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_host_holds_up_its_own_machine_only() {
    let mut stage = Stage::new().await;
    stage.add_host("h0", "a", json!({"settings": {"data-dir": "/srv"}})).await;
    stage.add_host("h1", "b", node_ip("10.0.0.11")).await;
    stage.has("w1", "node-ip", &json!("10.0.0.11")).await;
    let refused = async |world: &World| {
        let (reason, message) = planned(world, "w0").await?;
        ensure!(reason == "Refused", "{reason}: {message}");
        ensure!(
            message.contains("Host h0 spec.config.settings.data-dir: is decided by Capstan"),
            "{message}"
        );
        Ok(())
    };
    stage.until("the refusal", refused).await;
    assert!(stage.world.plan("w0").await.unwrap().is_none());
    let stands = async |world: &World| world.stands(1, V1).await;
    stage.until("the control plane", stands).await;
}

/// A window that opens in about three days.
fn closed_window() -> String {
    let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    // 1970-01-01 was a Thursday.
    let today = usize::try_from(Timestamp::now().as_second() / 86400).unwrap();
    format!("{} 12:00-13:00 UTC", days[(today + 3) % 7])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_host_waits_at_the_gate_for_its_window() {
    let mut stage = Stage::new().await;
    stage.add_host("h0", "a", node_ip("10.0.0.10")).await;
    stage.add_host("h1", "b", json!({})).await;
    stage.has("w0", "node-ip", &json!("10.0.0.10")).await;
    stage.has("w1", "node-ip", &Value::Null).await;
    let rollout = |windows: Value| json!({"spec": {"rollout": {"windows": windows}}});
    let windows = rollout(json!([closed_window()]));
    stage.world.patch::<CapstanControlPlane>("cp", &windows).await.unwrap();
    stage.world.patch::<Host>("h0", &json!({"spec": {"config": node_ip("10.0.0.11")}})).await.unwrap();
    let waits = async |world: &World| {
        let (_, message) = planned(world, "w0").await?;
        ensure!(message.contains("waits for its maintenance window"), "{message}");
        ensure!(settings(world, "w0").await?["node-ip"] == "10.0.0.11", "the plan is not prepared");
        let scene = world.scene().await?;
        let plan = scene.plan("w0")?.context("no plan")?;
        ensure!(!scene.is_open("w0", &plan)? && !scene.is_applied("w0", &plan), "the gate is open");
        Ok(())
    };
    stage.until("the wait for the window", waits).await;
    stage.world.patch::<CapstanControlPlane>("cp", &json!({"spec": {"rollout": null}})).await.unwrap();
    stage.has("w0", "node-ip", &json!("10.0.0.11")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_waits_for_the_window_of_its_host_and_no_other() {
    let mut stage = Stage::new().await;
    stage.add_host("h0", "a", node_ip("10.0.0.10")).await;
    stage.add_host("h1", "b", node_ip("10.0.0.20")).await;
    stage.has("w0", "node-ip", &json!("10.0.0.10")).await;
    stage.has("w1", "node-ip", &json!("10.0.0.20")).await;
    // The window of the cluster is open.
    let rollout = json!({"spec": {"rollout": {"windows": ["daily 00:00-00:00"]}}});
    stage.world.patch::<CapstanControlPlane>("cp", &rollout).await.unwrap();
    let windows = json!({"spec": {"windows": [closed_window()]}});
    stage.world.patch::<Host>("h0", &windows).await.unwrap();
    for (host, address) in [("h0", "10.0.0.11"), ("h1", "10.0.0.21")] {
        stage.world.patch::<Host>(host, &json!({"spec": {"config": node_ip(address)}})).await.unwrap();
    }
    let waits = async |world: &World| {
        let (_, message) = planned(world, "w0").await?;
        ensure!(message.contains("now Host h0 spec.windows is closed"), "{message}");
        let scene = world.scene().await?;
        let plan = scene.plan("w0")?.context("no plan")?;
        ensure!(!scene.is_open("w0", &plan)? && !scene.is_applied("w0", &plan), "the gate is open");
        let other = scene.plan("w1")?.context("no plan")?;
        ensure!(scene.is_applied("w1", &other), "w1 waits, too");
        Ok(())
    };
    stage.has("w1", "node-ip", &json!("10.0.0.21")).await;
    stage.until("the wait for the window of the host", waits).await;
    // A change of the windows alone wakes the control plane.
    stage.world.patch::<Host>("h0", &json!({"spec": {"windows": null}})).await.unwrap();
    let is_done = async |world: &World| {
        let scene = world.scene().await?;
        let plan = scene.plan("w0")?.context("no plan")?;
        ensure!(scene.is_applied("w0", &plan), "it waits");
        Ok(())
    };
    stage.until("the change", is_done).await;
}
