//! The manager dies at every write there is, and the next one goes on.
//!
//! The reconciler is run by hand with a client that stops working at the n-th write, for every n: before the write
//! reaches the server, or after, so that the answer is lost. The two take turns; `CAPSTAN_ALL_DEATHS=1` tries both for
//! every n. Then another manager takes over, and the control plane must get where it should, with the world checking
//! at every step that nothing impossible happens.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::infrastructure::HostMachine;
use capstan_controller::external::Externals;
use capstan_controller::{Caches, Reconciler as _};
use capstan_controlplane::ControlPlane;
use capstan_testkit::{RealPlane, install_crds};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use serde_json::json;

use crate::world::{V1, V2, Workload, World, tools};
use capstan_testkit::crash::{CrashPoint, NEVER};

struct Manager {
    reconciler: ControlPlane<Workload>,
    crash_point: CrashPoint,
    /// Whether it took over from a dead one.
    died: bool,
}

async fn manager(world: &World, config: &Config, writes: i64, reaches: bool) -> Manager {
    let crash_point = CrashPoint::new(writes, reaches);
    let client: Client = ClientBuilder::try_from(config.clone()).unwrap().with_layer(&crash_point).build();
    let workload = world.workload.seen_by(&crash_point);
    let (externals, tools) = (Externals::new(client.clone()), tools(&workload));
    Manager {
        reconciler: ControlPlane::new(Caches::live(client), externals, workload, tools),
        crash_point,
        died: false,
    }
}

/// Goes on until `done`, with another manager when the first has died. Gives what is left of its life.
async fn drive(
    world: &mut World,
    config: &Config,
    manager: &mut Manager,
    what: &str,
    done: impl AsyncFn(&World) -> Result<()>,
) -> Result<()> {
    let mut last = None;
    for _ in 0..200 {
        if let Some(object) = world.api::<CapstanControlPlane>().get_opt("cp").await?
            && let Err(error) = manager.reconciler.reconcile(Arc::new(object)).await
        {
            if manager.crash_point.is_dead() {
                *manager = Manager { died: true, ..self::manager(world, config, NEVER, false).await };
            }
            last = Some(capstan_controller::error::chain(&error));
        }
        world.tick().await?;
        match done(world).await {
            Ok(()) => return Ok(()),
            Err(not_yet) => last = Some(format!("{not_yet:#}; before: {last:?}")),
        }
    }
    bail!("waited in vain for {what}: {last:?}")
}

/// One life of a control plane, with a death at the n-th write: it ends when another manager has put right what the
/// dead one has left. Gives how many writes it took, if nobody died, and the CAs it made or was `brought`: to make them
/// takes longer than all the rest.
async fn life(
    plane: &CrashPlane,
    writes: i64,
    reaches: bool,
    brought: &[Secret],
) -> Result<(i64, Vec<Secret>)> {
    let number = if writes == NEVER { "never".to_owned() } else { writes.to_string() };
    let namespace = format!("crash-{number}-{reaches}-{}", brought.len());
    let config = plane.config.clone();
    let mut world = World::new(plane.client.clone(), &namespace).await;
    world.add_worker("w").await;
    for secret in brought {
        world.api::<Secret>().create(&PostParams::default(), secret).await?;
    }
    let mut manager = manager(&world, &config, writes, reaches).await;
    for (patch, what, replicas, version) in [
        (json!({}), "one machine", 1, V1),
        (json!({"spec": {"replicas": 3}}), "three machines", 3, V1),
        (json!({"spec": {"version": V2}}), "another version", 3, V2),
        (json!({"spec": {"replicas": 1}}), "one machine again", 1, V2),
    ] {
        world.patch::<CapstanControlPlane>("cp", &patch).await?;
        let stands = async |world: &World| world.stands(replicas, version).await;
        Box::pin(drive(&mut world, &config, &mut manager, what, stands)).await?;
        let made = world.api::<CapstanConfig>().list(&ListParams::default()).await?.items.len() - 1;
        ensure!(i32::try_from(made)? == replicas, "{made} CapstanConfigs were made for {replicas} machines");
        let made = world.api::<HostMachine>().list(&ListParams::default()).await?.items.len();
        ensure!(i32::try_from(made)? == replicas, "{made} HostMachines were made for {replicas} machines");
        if manager.died {
            return Ok((writes, Vec::new()));
        }
    }
    let mut made = Vec::new();
    for name in ["c-ca", "c-etcd", "c-proxy", "c-sa"] {
        let secret = world.api::<Secret>().get(name).await?;
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
        made.push(Secret { metadata, ..secret });
    }
    world.api::<CapstanControlPlane>().delete("cp", &DeleteParams::default()).await?;
    world.api::<capstan_api::core::Machine>().delete("w", &DeleteParams::default()).await?;
    let ended = async |world: &World| {
        let control_plane = world.api::<CapstanControlPlane>().get_opt("cp").await?;
        ensure!(control_plane.is_none(), "there is a control plane");
        ensure!(world.machines().await?.is_empty(), "there are machines");
        Ok(())
    };
    Box::pin(drive(&mut world, &config, &mut manager, "the end", ended)).await?;
    Ok((writes - manager.crash_point.left(), made))
}

/// Writes after which all keys and certificates are made.
const MAKING_KEYS: i64 = 12;

struct CrashPlane {
    client: Client,
    config: Config,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_at_any_write_changes_nothing() {
    let real = RealPlane::start().await.unwrap();
    install_crds(&real.client(), &capstan_api::crd::all()).await.unwrap();
    let kubeconfig = Kubeconfig::read_from(real.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let plane = CrashPlane { client: real.client(), config };
    let (all_writes, brought) = Box::pin(life(&plane, NEVER, false, &[])).await.unwrap();
    let (writes, _) = Box::pin(life(&plane, NEVER, true, &brought)).await.unwrap();
    // Fewer would mean that the deaths below are not where they should be.
    assert!(writes > 50 && all_writes > writes, "{all_writes} and {writes} writes");

    // Every other death before the write reaches the server; all of them both ways when asked for.
    let ways = 1 + usize::from(std::env::var_os("CAPSTAN_ALL_DEATHS").is_some());
    let both = |n: i64| [n % 2 == 0, n % 2 == 1].into_iter().take(ways).map(move |reaches| (n, reaches));
    let making = (1..=MAKING_KEYS).flat_map(both).map(|death| (death, &brought[..0]));
    let after = (1..=writes).flat_map(both).map(|death| (death, &brought[..]));
    let deaths: Vec<_> = making.chain(after).collect();
    let failed: Vec<String> = futures::stream::iter(&deaths)
        .map(|((n, reaches), brought)| {
            let lived = Box::pin(life(&plane, *n, *reaches, brought));
            async move {
                let lived = lived.await.err()?;
                Some(format!(
                    "{:#}",
                    lived.context(format!("write {n}, which reaches the server: {reaches}"))
                ))
            }
        })
        .buffer_unordered(6)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(failed.is_empty(), "{} of {} deaths:\n{}", failed.len(), deaths.len(), failed.join("\n"));
}
