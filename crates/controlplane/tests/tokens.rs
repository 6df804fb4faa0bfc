//! The tokens with which machines join. Workers never have that of servers, except in a cluster that began before they had
//! one of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use capstan_api::controlplane::CapstanControlPlane;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::external::Externals;
use capstan_controller::{Caches, Reconciler as _};
use capstan_controlplane::ControlPlane;
use capstan_plan::Digest;
use capstan_testkit::install_crds;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::world::{Scene, V1, V2, Workload, World, config_of, is_server, tools};

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

    fn manager(&self) -> ControlPlane<Workload> {
        let client = Client::new(self.plane.service(User::admin()), "default");
        let workload = self.world.workload.clone();
        let tools = tools(&workload);
        let (caches, externals) = (Caches::live(client.clone()), Externals::new(client));
        ControlPlane::new(caches, externals, workload, tools)
    }

    /// Reconciles until `done`.
    async fn until(&mut self, what: &str, done: impl AsyncFn(&World) -> Result<()>) -> Result<()> {
        let manager = self.manager();
        let mut last = None;
        for _ in 0..200 {
            let object = self.world.control_plane().await?;
            manager.reconcile(Arc::new(object)).await?;
            self.world.tick().await?;
            match done(&self.world).await {
                Ok(()) => return Ok(()),
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
        self.until("the cluster", stands).await.unwrap();
    }

    async fn replicas(&mut self, replicas: i32) {
        let spec = json!({"spec": {"replicas": replicas}});
        self.world.patch::<CapstanControlPlane>("cp", &spec).await.unwrap();
        self.stands(replicas, V1).await;
    }

    /// A cluster as it was before workers had a token of their own.
    async fn of_before(replicas: i32) -> Self {
        let mut stage = Self::new().await;
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
        stage.until("the cluster of before", shared).await.unwrap();
        stage
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
            ensure!(
                Scene::contains(&plan, &server) && Scene::contains(&plan, &agent),
                "{name} is not searched"
            );
            continue;
        }
        ensure!(config["token"] == format!("K10{ca}::node:{agent}"), "{name} has another token");
        let text = serde_json::to_string(plan.plan())?;
        let is_told = Scene::contains(&plan, &server) || text.contains(&server) || report.contains(&server);
        ensure!(!is_told, "{name} is told the token of servers");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_never_get_the_token_of_servers() {
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

/// k3s does not start again on a server whose token of workers was changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_before_stays_as_it_is() {
    let mut stage = Stage::of_before(3).await;
    let before = configs(&stage.world).await.unwrap();
    let (server, none, ca) = tokens(&stage.world).await.unwrap();
    assert_eq!(none, None);
    assert_eq!(before["w0"]["token"], format!("K10{ca}::node:{server}"));
    stage.stands(3, V1).await;
    assert_eq!(configs(&stage.world).await.unwrap(), before);
    assert_eq!(tokens(&stage.world).await.unwrap().1, None);
    // One that a user adds does not count.
    stage.world.patch::<Secret>("c-token", &json!({"stringData": {"agent": "added"}})).await.unwrap();
    stage.stands(3, V1).await;
    assert_eq!(configs(&stage.world).await.unwrap(), before);
}
