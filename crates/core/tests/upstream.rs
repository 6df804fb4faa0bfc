//! Our core with upstream's bootstrap, control plane and infrastructure providers: the contract is kept.

#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod common;

use anyhow::{Result, ensure};
use capstan_testkit::{CrdSet, Manager, UpstreamManagers, eventually, install_upstream_crds};
use capstan_tests::InMemoryCluster;
use common::{NAMESPACE, Stage, condition_of, merge};
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::json;
use std::time::Duration;

const NEWER: &str = "v1.36.2";
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

    until_deleted(&stage, &mut managers).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_made_from_a_class_of_upstreams_kinds_and_upgraded() -> Result<()> {
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
        workers: 1,
    };
    for object in cluster.objects_of_class() {
        stage.create(object).await?;
    }
    until_runs(&stage, &mut managers, "v1.36.1").await?;
    until_nothing_is_written(&stage).await?;
    let topology = json!({"spec": {"topology": {"version": NEWER}}});
    merge(&stage.api(CORE, "Cluster"), "mem", &topology).await?;
    until_runs(&stage, &mut managers, NEWER).await?;
    until_nothing_is_written(&stage).await?;
    until_deleted(&stage, &mut managers).await
}

/// Waits until the topology is reconciled, and both machines run this version.
async fn until_runs(stage: &Stage, managers: &mut UpstreamManagers, version: &str) -> Result<()> {
    let (clusters, machines) = (stage.api(CORE, "Cluster"), stage.api(CORE, "Machine"));
    eventually(PATIENCE, &format!("the cluster to run {version}"), async || {
        managers.ensure_running()?;
        let cluster = clusters.get("mem").await?;
        for type_ in ["TopologyReconciled", "Available"] {
            let condition = condition_of(&cluster, type_);
            ensure!(condition.starts_with("True/"), "{type_} {condition}");
        }
        let found = machines.list(&ListParams::default()).await?.items;
        let runs = |machine: &&DynamicObject| {
            machine.data["spec"]["version"] == version && machine.data["status"]["phase"] == "Running"
        };
        let running = found.iter().filter(runs).count();
        ensure!(found.len() == 2 && running == 2, "{running} of {} Machines", found.len());
        Ok(())
    })
    .await
}

/// Waits until nothing that the topology has made is written for a while.
async fn until_nothing_is_written(stage: &Stage) -> Result<()> {
    let kinds = [
        (CORE, "MachineDeployment"),
        ("infrastructure.cluster.x-k8s.io/v1beta2", "DevCluster"),
        ("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachineTemplate"),
        ("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate"),
        ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"),
    ];
    let read = async || -> Result<Vec<Option<String>>> {
        let mut versions = Vec::new();
        for (group_version, kind) in kinds {
            let all = stage.api(group_version, kind).list(&ListParams::default()).await?;
            versions.extend(all.iter().map(kube::ResourceExt::resource_version));
        }
        Ok(versions)
    };
    let mut last = read().await?;
    eventually(PATIENCE, "nothing to be written", async || {
        tokio::time::sleep(Duration::from_secs(15)).await;
        let now = read().await?;
        let is_same = now == last;
        last = now;
        ensure!(is_same, "something was written");
        Ok(())
    })
    .await
}

/// Deletes the Cluster, and waits until it is gone.
async fn until_deleted(stage: &Stage, managers: &mut UpstreamManagers) -> Result<()> {
    let (clusters, machines) = (stage.api(CORE, "Cluster"), stage.api(CORE, "Machine"));
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
