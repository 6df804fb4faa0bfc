//! The tokens with which machines join. Workers never have that of servers. A cluster that began before workers had their
//! own goes on as it is; asked for, its servers learn the token of workers first, and its workers get it then.

#![cfg(test)]
#![allow(clippy::large_futures, reason = "a test has room on its stack")]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use capstan_api::controlplane::CapstanControlPlane;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::external::Externals;
use capstan_controller::{Caches, Reconciler as _};
use capstan_controlplane::ControlPlane;
use capstan_plan::Digest;
use capstan_testkit::crash::{CrashPoint, NEVER};
use capstan_testkit::install_crds;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tower::Layer as _;

use world::{Scene, V1, V2, Workload, World, config_of, is_server, tools};

struct Stage {
    plane: Arc<ApiServer>,
    world: World,
}

impl Stage {
    async fn new() -> Self {
        let plane = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
        let client = Client::new(plane.service(User::admin()), "default");
        install_crds(&client, &capstan_api::crd::all()).await.unwrap();
        let world = World::new(client, "tokens").await;
        world.add_worker("w0").await;
        world.add_worker("w1").await;
        Self { plane, world }
    }

    /// A manager that dies at the n-th write.
    fn manager(&self, writes: i64) -> (ControlPlane<Workload>, CrashPoint) {
        let crash_point = CrashPoint::new(writes, writes % 2 == 0);
        let client = Client::new(crash_point.layer(self.plane.service(User::admin())), "default");
        let workload = self.world.workload.seen_by(&crash_point);
        let tools = tools(&workload);
        let (caches, externals) = (Caches::live(client.clone()), Externals::new(client));
        (ControlPlane::new(caches, externals, workload, tools), crash_point)
    }

    /// Goes on until `done`; gives how many writes it took if nobody died.
    async fn until(
        &mut self,
        writes: i64,
        what: &str,
        done: impl AsyncFn(&World) -> Result<()>,
    ) -> Result<i64> {
        let (mut manager, mut crash_point) = self.manager(writes);
        let mut last = None;
        for _ in 0..200 {
            let object = self.world.control_plane().await?;
            if manager.reconcile(Arc::new(object)).await.is_err() && crash_point.is_dead() {
                (manager, crash_point) = self.manager(NEVER);
            }
            self.world.tick().await?;
            match done(&self.world).await {
                Ok(()) => return Ok(writes - crash_point.left()),
                Err(not_yet) => last = Some(not_yet),
            }
        }
        bail!("waited in vain for {what}: {last:?}")
    }

    async fn stands(&mut self, replicas: i32, version: &str) {
        let stands = async |world: &World| {
            world.stands(replicas, version).await?;
            all_applied(world).await
        };
        self.until(NEVER, "the cluster", stands).await.unwrap();
    }

    async fn replicas(&mut self, replicas: i32) {
        let spec = json!({"spec": {"replicas": replicas}});
        self.world.patch::<CapstanControlPlane>("cp", &spec).await.unwrap();
        self.stands(replicas, V1).await;
    }

    /// A cluster as it was before workers had a token of their own.
    async fn of_before(replicas: i32, brought: &[Secret]) -> Self {
        let mut stage = Self::new().await;
        for secret in brought {
            stage.world.api::<Secret>().create(&PostParams::default(), secret).await.unwrap();
        }
        stage.stands(1, V1).await;
        stage.replicas(replicas).await;
        // What an older version has left: no token of workers, and no record of one.
        let secret = stage.world.api::<Secret>().get("c-token").await.unwrap();
        let keys =
            json!({"data": {"agent": null}, "metadata": {"resourceVersion": secret.resource_version()}});
        stage.world.patch::<Secret>("c-token", &keys).await.unwrap();
        let noted =
            stage.world.control_plane().await.unwrap().annotations()["capstan.dev/key-digests"].clone();
        let mut noted: Value = serde_json::from_str(&noted).unwrap();
        noted.as_object_mut().unwrap().remove("AgentToken").unwrap();
        let noted = json!({"metadata": {"annotations": {"capstan.dev/key-digests": noted.to_string()}}});
        stage.world.patch::<CapstanControlPlane>("cp", &noted).await.unwrap();
        stage.world.began_without_agent_token = true;
        stage.world.separate.clear();
        let shared = async |world: &World| {
            world.stands(replicas, V1).await?;
            all_applied(world).await?;
            let server = tokens(world).await?.0;
            for (name, config) in configs(world).await? {
                let is_shared = config["token"].as_str().is_some_and(|token| token.ends_with(&server));
                ensure!(is_shared && config.get("agent-token").is_none(), "{name} has a token of workers");
            }
            Ok(())
        };
        stage.until(NEVER, "the cluster of before", shared).await.unwrap();
        stage
    }

    async fn ask(&self) {
        let asked = json!({"metadata": {"annotations": {"capstan.dev/separate-agent-token": ""}}});
        self.world.patch::<CapstanControlPlane>("cp", &asked).await.unwrap();
    }

    /// Keys and certificates take long to make.
    async fn keys(&self) -> Vec<Secret> {
        let mut keys = Vec::new();
        for name in ["c-ca", "c-etcd", "c-proxy", "c-sa"] {
            let mut secret = self.world.api::<Secret>().get(name).await.unwrap();
            secret.metadata = kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
            keys.push(secret);
        }
        keys
    }
}

/// `config.yaml` of every machine.
async fn configs(world: &World) -> Result<BTreeMap<String, Value>> {
    let scene = world.scene().await?;
    let mut configs = BTreeMap::new();
    for machine in &scene.machines {
        let name = machine.name_any();
        let Some(plan) = scene.plan(&name)? else { bail!("{name} has no plan") };
        configs.insert(name, config_of(&plan));
    }
    Ok(configs)
}

async fn all_applied(world: &World) -> Result<()> {
    let scene = world.scene().await?;
    for machine in &scene.machines {
        let name = machine.name_any();
        let plan = scene.plan(&name)?;
        ensure!(plan.is_some_and(|plan| scene.is_applied(&name, &plan)), "{name} has not applied its plan");
    }
    Ok(())
}

/// Tokens of servers and of workers, and the digest of the CA.
async fn tokens(world: &World) -> Result<(String, Option<String>, String)> {
    let text = |bytes: &ByteString| String::from_utf8(bytes.0.clone()).unwrap();
    let tokens = world.api::<Secret>().get("c-token").await?.data.unwrap_or_default();
    let ca = world.api::<Secret>().get("c-ca").await?.data.unwrap_or_default();
    Ok((text(&tokens["value"]), tokens.get("agent").map(text), Digest::of(&ca["tls.crt"].0).to_string()))
}

/// Every machine joins with the token of its role, and no worker can tell that of servers.
async fn is_separate(world: &World) -> Result<()> {
    let (server, agent, ca) = tokens(world).await?;
    let Some(agent) = agent else { bail!("there is no token of workers") };
    ensure!(agent != server, "both are the same");
    let scene = world.scene().await?;
    for machine in &scene.machines {
        let name = machine.name_any();
        let Some(plan) = scene.plan(&name)? else { bail!("{name} has no plan") };
        let (config, report) = (config_of(&plan), serde_json::to_string(&scene.reports.get(&name))?);
        if is_server(machine) {
            ensure!(config["token"] == format!("K10{ca}::server:{server}"), "{name} has another token");
            ensure!(config["agent-token"] == agent.as_str(), "{name} does not know the token of workers");
            ensure!(Scene::tells(&plan, &server) && Scene::tells(&plan, &agent), "{name} is not searched");
            continue;
        }
        ensure!(config["token"] == format!("K10{ca}::node:{agent}"), "{name} has another token");
        let text = serde_json::to_string(plan.plan())?;
        let is_told = Scene::tells(&plan, &server) || text.contains(&server) || report.contains(&server);
        ensure!(!is_told, "{name} is told the token of servers");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_never_told_the_token_of_servers() {
    let mut stage = Stage::new().await;
    stage.stands(1, V1).await;
    stage.replicas(3).await;
    is_separate(&stage.world).await.unwrap();
    stage.world.patch::<CapstanControlPlane>("cp", &json!({"spec": {"version": V2}})).await.unwrap();
    stage.stands(3, V2).await;
    is_separate(&stage.world).await.unwrap();
}

/// What the user has brought gets a token of workers before the first machine has a plan.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_brought_is_completed() {
    let mut stage = Stage::new().await;
    let brought = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c-token"},
        "stringData": {"value": "token-of-the-user"}});
    stage.world.make::<Secret>(brought).await;
    stage.stands(1, V1).await;
    assert_eq!(tokens(&stage.world).await.unwrap().0, "token-of-the-user");
    is_separate(&stage.world).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_before_changes_when_it_is_asked_to_and_servers_come_first() {
    let mut stage = Stage::of_before(3, &[]).await;
    let before = configs(&stage.world).await.unwrap();
    let (server, none, ca) = tokens(&stage.world).await.unwrap();
    assert_eq!(none, None);
    assert_eq!(before["w0"]["token"], format!("K10{ca}::node:{server}"));
    // Nobody asks: nothing is made and nothing changes.
    stage.stands(3, V1).await;
    assert_eq!(configs(&stage.world).await.unwrap(), before);
    assert_eq!(tokens(&stage.world).await.unwrap().1, None);

    stage.ask().await;
    let separate = async |world: &World| {
        is_separate(world).await?;
        all_applied(world).await
    };
    stage.until(NEVER, "tokens of their own", separate).await.unwrap();
    assert_eq!(tokens(&stage.world).await.unwrap().0, server, "that of servers stays");
    // Taking the request back changes nothing.
    let back = json!({"metadata": {"annotations": {"capstan.dev/separate-agent-token": null}}});
    stage.world.patch::<CapstanControlPlane>("cp", &back).await.unwrap();
    stage.stands(3, V1).await;
    is_separate(&stage.world).await.unwrap();
}

/// A server that is held keeps the old setup: no worker may get its own token, and none joins.
#[tokio::test(flavor = "multi_thread")]
async fn workers_wait_for_every_server() {
    let mut stage = Stage::of_before(3, &[]).await;
    let scene = stage.world.scene().await.unwrap();
    let held = scene.machines.iter().find(|machine| is_server(machine)).unwrap().name_any();
    let hold = |value: Value| json!({"metadata": {"annotations": {"capstan.dev/hold": value}}});
    stage.world.patch::<capstan_api::core::Machine>(&held, &hold(json!(""))).await.unwrap();
    stage.ask().await;
    stage.world.add_worker("w2").await;
    let two = async |world: &World| {
        let configs = configs_of_planned(world).await?;
        let knowing = configs.values().filter(|config| config.get("agent-token").is_some()).count();
        ensure!(knowing == 2, "{knowing} servers know the token");
        Ok(())
    };
    stage.until(NEVER, "two servers", two).await.unwrap();
    let (manager, _) = stage.manager(NEVER);
    for _ in 0..20 {
        let object = stage.world.control_plane().await.unwrap();
        manager.reconcile(Arc::new(object)).await.unwrap();
        stage.world.tick().await.unwrap();
    }
    let configs = configs_of_planned(&stage.world).await.unwrap();
    let server = tokens(&stage.world).await.unwrap().0;
    assert!(configs["w0"]["token"].as_str().unwrap().ends_with(&server));
    assert!(!configs.contains_key("w2"), "it would not be let in by every server");

    stage.world.patch::<capstan_api::core::Machine>(&held, &hold(Value::Null)).await.unwrap();
    let separate = async |world: &World| is_separate(world).await;
    stage.until(NEVER, "tokens of their own", separate).await.unwrap();
}

async fn configs_of_planned(world: &World) -> Result<BTreeMap<String, Value>> {
    let scene = world.scene().await?;
    let mut configs = BTreeMap::new();
    for machine in &scene.machines {
        let name = machine.name_any();
        configs.extend(scene.plan(&name)?.map(|plan| (name, config_of(&plan))));
    }
    Ok(configs)
}

/// The manager dies at every write on the way, and the next one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_death_at_any_write_changes_nothing() {
    let separate = async |world: &World| {
        is_separate(world).await?;
        all_applied(world).await
    };
    let mut stage = Stage::of_before(1, &[]).await;
    let keys = stage.keys().await;
    stage.ask().await;
    let writes = stage.until(NEVER, "tokens of their own", separate).await.unwrap();
    assert!(writes > 10, "{writes} writes");
    for death in 1..=writes {
        let mut stage = Stage::of_before(1, &keys).await;
        stage.ask().await;
        let after = stage.until(death, "tokens of their own", separate).await;
        assert!(after.is_ok(), "death at write {death}: {after:?}");
    }
}
