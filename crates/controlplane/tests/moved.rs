//! A cluster whose objects were made anew at another plane, with other UIDs and without status: nothing is begun, made,
//! planned or started again, and from there on it is led as before, in the next epoch.

use crate::world;
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use capstan_api::bootstrap::CapstanConfigPlanStatus;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::external::Externals;
use capstan_controller::{Caches, Reconciler as _};
use capstan_controlplane::ControlPlane;
use capstan_testkit::install_crds;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::world::{V1, V2, Workload, World, tools};

async fn plane() -> (Arc<ApiServer>, Client) {
    let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
    let client = Client::new(server.service(User::admin()), "default");
    install_crds(&client, &capstan_api::crd::all()).await.unwrap();
    (server, client)
}

fn manager(world: &World) -> ControlPlane<Workload> {
    let tools = tools(&world.workload);
    let client = world.client.clone();
    ControlPlane::new(Caches::live(client.clone()), Externals::new(client), world.workload.clone(), tools)
}

async fn reconcile(world: &World, manager: &ControlPlane<Workload>) -> Result<()> {
    let object = world.api::<CapstanControlPlane>().get("cp").await?;
    manager.reconcile(Arc::new(object)).await?;
    Ok(())
}

async fn until(
    world: &mut World,
    manager: &ControlPlane<Workload>,
    replicas: i32,
    version: &str,
) -> Result<()> {
    let mut last = None;
    for _ in 0..200 {
        reconcile(world, manager).await?;
        world.tick().await?;
        match world.stands(replicas, version).await {
            Ok(()) => return Ok(()),
            Err(not_yet) => last = Some(not_yet),
        }
    }
    bail!("waited in vain: {last:?}")
}

/// Every machine with its plan, and what is written down of the cluster's beginning.
async fn stands(world: &World) -> Result<(BTreeMap<String, String>, Value)> {
    let mut machines = BTreeMap::new();
    for machine in world.machines().await? {
        let name = machine.name_any();
        let plan = world.plan(&name).await?;
        machines.insert(name, plan.map(|plan| plan.id().to_string()).unwrap_or_default());
    }
    let owner = world.control_plane().await?;
    let noted = ["init-machine", "initialized", "next-machine", "cluster-network", "key-digests"];
    let noted = noted.map(|name| owner.annotations().get(&format!("capstan.dev/{name}")).cloned());
    Ok((machines, json!(noted)))
}

async fn epoch(world: &World) -> Result<String> {
    let key = world.api::<Secret>().get("c-plan-key").await?.data.unwrap_or_default();
    Ok(String::from_utf8(key.get("epoch").map(|bytes| bytes.0.clone()).unwrap_or_default())?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_cluster_stands_as_it_stood() {
    let (_here, client) = plane().await;
    let mut world = World::new(client, "moved").await;
    world.add_worker("w").await;
    let first = manager(&world);
    until(&mut world, &first, 1, V1).await.unwrap();
    world.patch::<CapstanControlPlane>("cp", &json!({"spec": {"replicas": 3}})).await.unwrap();
    until(&mut world, &first, 3, V1).await.unwrap();
    let before = stands(&world).await.unwrap();
    assert_eq!(epoch(&world).await.unwrap(), "1");

    let (_there, client) = plane().await;
    world.move_to(client).await.unwrap();
    let second = manager(&world);
    // Before core and the agents have said anything, and after core has.
    for _ in 0..5 {
        reconcile(&world, &second).await.unwrap();
    }
    world.infrastructure_stands().await;
    for _ in 0..5 {
        reconcile(&world, &second).await.unwrap();
        assert_eq!(stands(&world).await.unwrap(), before, "nothing was to be done");
    }
    assert_eq!(epoch(&world).await.unwrap(), "2", "once for each move");
    world.agents_follow().await.unwrap();
    until(&mut world, &second, 3, V1).await.unwrap();
    assert_eq!(stands(&world).await.unwrap(), before, "nothing was to be done");

    world.patch::<CapstanControlPlane>("cp", &json!({"spec": {"version": V2}})).await.unwrap();
    until(&mut world, &second, 3, V2).await.unwrap();
    let after = stands(&world).await.unwrap();
    assert!(after.0.keys().eq(before.0.keys()) && after.1 == before.1, "{before:?} became {after:?}");
    for (name, plan) in &after.0 {
        let verified = world.plan(name).await.unwrap().unwrap();
        let expected = if before.0[name] == *plan { 1 } else { 2 };
        assert_eq!(verified.plan().epoch.0, expected, "{name}");
    }
}

/// The status of CapstanConfigs names the plans of their machines. An earlier version did not write it, and a move drops it:
/// it is written again by itself, once, and without another plan.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_missing_in_the_status_is_added_there_and_not_written_again() {
    let (_here, client) = plane().await;
    let mut world = World::new(client, "told").await;
    world.add_worker("w").await;
    let manager = manager(&world);
    until(&mut world, &manager, 1, V1).await.unwrap();
    for _ in 0..3 {
        reconcile(&world, &manager).await.unwrap();
    }
    let (before, told) = (versions(&world).await.unwrap(), reported_plans(&world).await.unwrap());
    assert!(told.len() == 2 && told.values().all(Option::is_some), "{told:?}");
    for _ in 0..3 {
        reconcile(&world, &manager).await.unwrap();
    }
    assert_eq!(versions(&world).await.unwrap(), before, "nothing is written when nothing changes");

    // One as an earlier version left it, and one in whose place somebody has written something else.
    let other = json!({"revision": 9, "setup": "0a".repeat(32)});
    for (name, plan) in told.keys().zip([Value::Null, other]) {
        world.config_status(name, &json!({"status": {"plan": plan}})).await.unwrap();
    }
    reconcile(&world, &manager).await.unwrap();
    assert_eq!(reported_plans(&world).await.unwrap(), told);
    let after = versions(&world).await.unwrap();
    for _ in 0..3 {
        reconcile(&world, &manager).await.unwrap();
    }
    assert_eq!(versions(&world).await.unwrap(), after, "one write for each");
    let secrets = |versions: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        versions.clone().into_iter().filter(|(name, _)| name.starts_with("Secret ")).collect()
    };
    assert_eq!(secrets(&after), secrets(&before), "no plan was written");
}

/// What the planner says of each machine's plan.
async fn reported_plans(world: &World) -> Result<BTreeMap<String, Option<CapstanConfigPlanStatus>>> {
    let configs = world.scene().await?.configs.into_iter();
    Ok(configs.map(|(name, config)| (name, config.status.and_then(|status| status.plan))).collect())
}

/// The resource versions of plan Secrets and CapstanConfigs.
async fn versions(world: &World) -> Result<BTreeMap<String, String>> {
    let scene = world.scene().await?;
    let secrets = scene.secrets.iter().filter(|(name, _)| name.ends_with("-plan"));
    let secrets = secrets.map(|(name, secret)| (format!("Secret {name}"), secret.resource_version()));
    let configs = scene.configs.iter();
    let configs = configs.map(|(name, config)| (format!("CapstanConfig {name}"), config.resource_version()));
    Ok(secrets.chain(configs).map(|(name, version)| (name, version.unwrap_or_default())).collect())
}

/// A plan that was written and not heard before the move is refused by the machine, and written anew at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_nobody_heard_before_the_move_is_given_again() {
    let (_here, client) = plane().await;
    let mut world = World::new(client, "unheard").await;
    let first = manager(&world);
    until(&mut world, &first, 1, V1).await.unwrap();
    world.patch::<CapstanControlPlane>("cp", &json!({"spec": {"version": V2}})).await.unwrap();
    let name = world.machines().await.unwrap()[0].name_any();
    let old = world.plan(&name).await.unwrap().unwrap().id();
    for _ in 0..20 {
        reconcile(&world, &first).await.unwrap();
    }
    let unheard = world.plan(&name).await.unwrap().unwrap().id();
    assert_ne!(old, unheard);

    let (_there, client) = plane().await;
    world.move_to(client).await.unwrap();
    world.infrastructure_stands().await;
    let second = manager(&world);
    reconcile(&world, &second).await.unwrap();
    let plan_ref = |plan: capstan_plan::PlanId| json!({"digest": plan.digest().to_string(), "revision": plan.revision().get()});
    let refused = json!({"status": {
        "plan": plan_ref(unheard), "phase": "Refused", "applied": plan_ref(old),
        "message": "the plan is from manager epoch 1, and this machine has obeyed epoch 2"}});
    world.report_status(&name, &refused).await.unwrap();
    for _ in 0..3 {
        reconcile(&world, &second).await.unwrap();
    }
    let again = world.plan(&name).await.unwrap().unwrap();
    assert!(again.id().revision() > unheard.revision(), "{} after {unheard}", again.id());
    assert_eq!(again.plan().epoch.0, 2);
    ensure_same_steps(&world, &name).await.unwrap();
}

async fn ensure_same_steps(world: &World, name: &str) -> Result<()> {
    let plan = world.plan(name).await?;
    ensure!(plan.is_some_and(|plan| world::version_of(&plan) == V2), "another plan");
    Ok(())
}
