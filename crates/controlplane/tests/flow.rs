//! A control plane from nothing to one machine, to three, to another version, and to nothing again, on a real API
//! server. Upstream's and our own other controllers are played by the test.

use std::time::Duration;

use anyhow::{Result, ensure};
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Machine;
use capstan_controller::external::Externals;
use capstan_controller::remote::Remotes;
use capstan_testkit::{RealPlane, eventually, install_crds};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;
use std::collections::BTreeMap;

use crate::world::{V1, V2, World, config_of, tools, version_of};

const DEADLINE: Duration = Duration::from_secs(90);

/// The world goes on until something is so.
async fn until(world: &mut World, what: &str, look: impl AsyncFn(&World) -> Result<()>) {
    eventually(DEADLINE, what, async || {
        world.tick().await?;
        look(world).await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_lives() {
    let plane = RealPlane::start().await.unwrap();
    let client = plane.client();
    install_crds(&client, &capstan_api::crd::all()).await.unwrap();
    let mut world = World::new(client.clone(), "flow").await;
    // The plane plays the workload cluster, too; a kubeconfig that somebody brought is used and not touched.
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    world
        .make::<Secret>(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "c-kubeconfig", "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "stringData": {"value": kubeconfig},
        }))
        .await;
    world.add_worker("w").await;
    let (externals, remotes) = (Externals::new(client.clone()), Remotes::new(client.clone()));
    let tools = tools(&world.workload);
    tokio::spawn(capstan_controlplane::run(
        capstan_controller::Caches::new(client),
        externals,
        remotes,
        tools,
        capstan_controller::Scope::default(),
        std::future::pending(),
    ));

    until(&mut world, "one machine", async |world| world.stands(1, V1).await).await;
    until(&mut world, "the worker's plan", async |world| {
        let plan = world.plan("w").await?;
        ensure!(plan.is_some_and(|plan| config_of(&plan).get("tls-san").is_none()), "none");
        Ok(())
    })
    .await;
    let found = world.api::<Secret>().get("c-kubeconfig").await.unwrap();
    assert!(found.owner_references().is_empty());

    let spec = async |world: &World, spec| {
        world.patch::<CapstanControlPlane>("cp", &json!({"spec": spec})).await.unwrap();
    };
    spec(&world, json!({"replicas": 3})).await;
    until(&mut world, "three machines", async |world| world.stands(3, V1).await).await;
    let uids = uids(&world).await;
    let mut racks: Vec<_> =
        world.machines().await.unwrap().into_iter().filter_map(|m| m.spec.failure_domain).collect();
    racks.sort();
    assert_eq!(racks, ["rack-1", "rack-2", "rack-3"]);

    refusals(&mut world).await;

    spec(&world, json!({"version": V2})).await;
    until(&mut world, "another version", async |world| world.stands(3, V2).await).await;
    assert_eq!(version_of(&world.plan("w").await.unwrap().unwrap()), V1);
    world.patch::<Machine>("w", &json!({"spec": {"version": V2}})).await.unwrap();
    until(&mut world, "the worker's other version", async |world| {
        let version = version_of(&world.plan("w").await?.unwrap());
        ensure!(version == V2, "{version}");
        Ok(())
    })
    .await;

    spec(&world, json!({"config": {"settings": {"disable": ["traefik"]}}})).await;
    until(&mut world, "a changed setting", async |world| {
        for name in uids_of_servers(world).await.keys() {
            let config = config_of(&world.plan(name).await?.unwrap());
            ensure!(config["disable"] == json!(["traefik"]), "{name}: {config}");
        }
        world.stands(3, V2).await
    })
    .await;
    assert_eq!(self::uids(&world).await, uids, "every machine was kept");

    spec(&world, json!({"replicas": 1})).await;
    until(&mut world, "one machine again", async |world| world.stands(1, V2).await).await;

    world.api::<CapstanControlPlane>().delete("cp", &DeleteParams::default()).await.unwrap();
    until(&mut world, "the wait for workers", async |world| {
        let condition = world.condition("Deleting").await?;
        ensure!(condition.1 == "WaitingForWorkersDeletion" && condition.2.ends_with(": w"), "{condition:?}");
        Ok(())
    })
    .await;
    assert_eq!(uids_of_servers(&world).await.len(), 1, "nothing is deleted before the workers are");
    world.api::<Machine>().delete("w", &DeleteParams::default()).await.unwrap();
    until(&mut world, "the end", async |world| {
        ensure!(world.machines().await?.is_empty(), "there are machines");
        ensure!(
            world.api::<CapstanControlPlane>().get_opt("cp").await?.is_none(),
            "there is a control plane"
        );
        Ok(())
    })
    .await;
}

/// What cannot be done in place is refused with the field's name, and nothing is touched.
async fn refusals(world: &mut World) {
    let before = touched(world).await;
    for (change, back, field) in [
        (json!({"version": "v1.39.0+k3s1"}), json!({"version": V1}), "spec.version"),
        (
            json!({"config": {"settings": {"server": "https://elsewhere"}}}),
            json!({"config": {"settings": null}}),
            "spec.config.settings.server",
        ),
        (
            json!({"machineTemplate": {"spec": {"infrastructureRef": {"name": "others"}}}}),
            json!({"machineTemplate": {"spec": {"infrastructureRef": {"name": "hosts"}}}}),
            "spec.machineTemplate.spec.infrastructureRef",
        ),
    ] {
        world.patch::<CapstanControlPlane>("cp", &json!({"spec": change})).await.unwrap();
        until(world, "a refusal", async |world| {
            let condition = world.condition("RollingOut").await?;
            ensure!(
                condition.1 == "Refused" && condition.2.contains(&format!("* {field}: ")),
                "{condition:?}"
            );
            Ok(())
        })
        .await;
        world.patch::<CapstanControlPlane>("cp", &json!({"spec": back})).await.unwrap();
        until(world, "peace", async |world| world.stands(3, V1).await).await;
    }
    assert_eq!(touched(world).await, before);
}

/// What would have changed if anything had been touched: specs of machines and configs, and plans.
async fn touched(world: &World) -> Vec<(String, Option<i64>, Option<i64>, u64)> {
    let mut all = Vec::new();
    for machine in world.machines().await.unwrap() {
        let name = machine.name_any();
        let config = world.api::<CapstanConfig>().get(&name).await.unwrap();
        let plan = world.plan(&name).await.unwrap().unwrap();
        all.push((name, machine.metadata.generation, config.metadata.generation, plan.id().revision().get()));
    }
    all
}

async fn uids(world: &World) -> BTreeMap<String, String> {
    world
        .machines()
        .await
        .unwrap()
        .into_iter()
        .map(|machine| (machine.name_any(), machine.uid().unwrap()))
        .collect()
}

async fn uids_of_servers(world: &World) -> BTreeMap<String, String> {
    let mut all = uids(world).await;
    all.remove("w");
    all
}
