//! Upstream's four managers bring a cluster up on a real plane, and take it away again: once with their own core
//! CRDs, which shows that the plane and the recipe are right, and once with ours, which shows that ours can
//! stand in for them.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use capstan_testkit::{
    CrdSet, Manager, RealPlane, UpstreamManagers, eventually, install_crds, install_upstream_crds,
};
use capstan_tests::{InMemoryCluster, condition, namespaced, not_true};
use kube::api::{DeleteParams, ListParams};

/// The cluster takes some ten seconds where nothing else runs.
const DEADLINE: Duration = Duration::from_secs(300);
const PROVIDERS: [CrdSet; 3] = [CrdSet::KubeadmBootstrap, CrdSet::KubeadmControlPlane, CrdSet::Dev];
const NAMESPACE: &str = "harbour";

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_and_goes_with_upstreams_crds() {
    let plane = RealPlane::start().await.unwrap();
    install_upstream_crds(&plane.client(), &[CrdSet::Core, CrdSet::Clusterctl]).await.unwrap();
    a_cluster_comes_and_goes(plane).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_and_goes_with_our_crds() {
    let plane = RealPlane::start().await.unwrap();
    install_crds(&plane.client(), &capstan_api::crd::all()).await.unwrap();
    a_cluster_comes_and_goes(plane).await;
}

async fn a_cluster_comes_and_goes(plane: RealPlane) {
    let mut clock = Clock::start();
    install_upstream_crds(&plane.client(), &PROVIDERS).await.unwrap();
    clock.lap("CRDs of the providers");
    let managers = UpstreamManagers::start(&plane, &Manager::ALL).await.unwrap();
    clock.lap("four managers healthy");

    let cluster = InMemoryCluster {
        namespace: NAMESPACE.into(),
        name: "tender".into(),
        version: "v1.36.0".into(),
        control_planes: 1,
        workers: 2,
    };
    plane.kubectl(&["create", "namespace", NAMESPACE]).await.unwrap().success().unwrap();
    plane.apply_yaml(&cluster.manifest()).await.unwrap();
    let clusters = namespaced(&plane.client(), NAMESPACE, "cluster.x-k8s.io/v1beta2", "Cluster");
    eventually(DEADLINE, "the cluster to be available", async || {
        let cluster = clusters.get("tender").await?;
        ensure!(condition(&cluster, "Available") == Some("True"), not_true(&cluster));
        Ok(())
    })
    .await
    .unwrap();
    clock.lap("cluster available");
    eventually(DEADLINE, "three machines to be ready", async || machines_are_ready(&plane).await)
        .await
        .unwrap();
    clock.lap("all machines ready");

    clusters.delete("tender", &DeleteParams::default()).await.unwrap();
    eventually(DEADLINE, "everything to be gone", async || nothing_is_left(&plane).await).await.unwrap();
    clock.lap("everything gone");

    let complaints = complaints(&managers);
    assert!(complaints.is_empty(), "the CRDs do not take all that the managers write:\n{complaints:#?}");
}

async fn machines_are_ready(plane: &RealPlane) -> Result<()> {
    let machines = namespaced(&plane.client(), NAMESPACE, "cluster.x-k8s.io/v1beta2", "Machine");
    let machines = machines.list(&ListParams::default()).await?.items;
    ensure!(machines.len() == 3, "{} machines", machines.len());
    for machine in &machines {
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        ensure!(condition(machine, "Ready") == Some("True"), "{name}: {}", not_true(machine));
        ensure!(machine.data["status"]["phase"] == "Running", "{name}: {}", machine.data["status"]);
        let node = machine.data.pointer("/status/nodeRef/name");
        ensure!(node.is_some(), "{name} has no node");
    }
    Ok(())
}

async fn nothing_is_left(plane: &RealPlane) -> Result<()> {
    const KINDS: &str = "clusters,machines,machinesets,machinedeployments,kubeadmcontrolplanes,kubeadmconfigs,\
                         kubeadmconfigtemplates,devclusters,devmachines,devmachinetemplates,secrets";
    let left = plane.kubectl(&["get", KINDS, "-n", NAMESPACE, "-o", "name"]).await?.success();
    let left = left.context("cannot list what is left")?;
    ensure!(left.trim().is_empty(), "{}", left.trim().replace('\n', ", "));
    Ok(())
}

/// What the API server did not keep: it warns of each field that a CRD does not know and refuses values that
/// a CRD does not allow, and the managers log both.
fn complaints(managers: &UpstreamManagers) -> BTreeSet<String> {
    let lines = managers.log_lines(&["unknown field", "is invalid"]);
    // Without klog's header, the same complaint is the same text.
    lines
        .iter()
        .map(|line| line.split_once("] ").map_or(line.as_str(), |(_, text)| text).to_owned())
        .collect()
}

/// Says how long each part took, for those who run the test with its output shown.
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn lap(&mut self, what: &str) {
        eprintln!("{what}: {:.1} s", self.0.elapsed().as_secs_f64());
        self.0 = Instant::now();
    }
}
