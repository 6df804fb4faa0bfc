//! Our core with upstream's bootstrap, control plane and infrastructure providers: the contract is kept.

#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod common;

use anyhow::{Result, ensure};
use capstan_testkit::{CrdSet, Manager, UpstreamManagers, eventually, install_upstream_crds};
use capstan_tests::InMemoryCluster;
use common::{NAMESPACE, Stage, condition_of};
use kube::api::{DeleteParams, ListParams};
use std::time::Duration;

const CORE: &str = "cluster.x-k8s.io/v1beta2";
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_providers_bring_up_a_cluster_and_take_it_away() -> Result<()> {
    let stage = Stage::start(async |client| {
        let sets = [CrdSet::KubeadmBootstrap, CrdSet::KubeadmControlPlane, CrdSet::Dev];
        install_upstream_crds(client, &sets).await
    })
    .await?;
    let providers = [Manager::KubeadmBootstrap, Manager::KubeadmControlPlane, Manager::Dev];
    let mut managers = UpstreamManagers::start(&stage.plane, &providers).await?;
    let cluster = InMemoryCluster {
        namespace: NAMESPACE.to_owned(),
        name: "mem".to_owned(),
        version: "v1.36.1".to_owned(),
        control_planes: 1,
        workers: 2,
    };
    for object in cluster.objects() {
        stage.create(object).await?;
    }

    let clusters = stage.api(CORE, "Cluster");
    let machines = stage.api(CORE, "Machine");
    eventually(PATIENCE, "the cluster to be available with all its machines", async || {
        managers.ensure_running()?;
        let cluster = clusters.get("mem").await?;
        let initialized = condition_of(&cluster, "ControlPlaneInitialized");
        let found = machines.list(&ListParams::default()).await?.items;
        ensure!(initialized == "True/Initialized", "{initialized}; {} Machines", found.len());
        ensure!(found.len() == 3, "{} Machines", found.len());
        for machine in &found {
            ensure!(machine.data["status"]["phase"] == "Running", "Machine {}", machine.data["status"]);
            let available = condition_of(machine, "Available");
            ensure!(available == "True/Available", "Machine {}", machine.data["status"]);
        }
        let available = condition_of(&cluster, "Available");
        ensure!(available == "True/Available", "Cluster {}", cluster.data["status"]);
        ensure!(cluster.data["status"]["workers"]["availableReplicas"] == 2, "{}", cluster.data["status"]);
        Ok(())
    })
    .await?;

    clusters.delete("mem", &DeleteParams::default()).await?;
    eventually(PATIENCE, "the Cluster to be gone", async || {
        managers.ensure_running()?;
        match clusters.get_opt("mem").await? {
            None => Ok(()),
            Some(cluster) => {
                let machines = machines.list(&ListParams::default()).await?;
                let machines: Vec<String> =
                    machines.iter().map(|machine| condition_of(machine, "Deleting")).collect();
                anyhow::bail!("{}; Machines {machines:?}", condition_of(&cluster, "Deleting"))
            }
        }
    })
    .await
}
