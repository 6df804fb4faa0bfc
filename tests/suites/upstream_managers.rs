//! Upstream's four managers bring a cluster up, scale it, upgrade it, and take it away again. On a real plane once with their own
//! core CRDs and webhooks, which shows that the plane and the recipe are right, and once with ours, which shows that ours
//! can stand in for them; and on the embedded plane, which must look no different to them.

#![cfg(test)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use capstan_testkit::{
    CrdSet, FeatureGates, Manager, RealPlane, UpstreamManagers, client, eventually, install_crds,
    install_upstream_crds, kubectl, upstream_crds,
};
use capstan_tests::{Embedded, InMemoryCluster, admission, condition, converted_by, namespaced, not_true};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

/// The cluster takes some ten seconds where nothing else runs.
const DEADLINE: Duration = Duration::from_secs(300);
const PROVIDERS: [CrdSet; 3] = [CrdSet::KubeadmBootstrap, CrdSet::KubeadmControlPlane, CrdSet::Dev];
const NAMESPACE: &str = "harbour";
const NEWER: &str = "v1.36.1";
const CONTROL_PLANES: &str = "controlplane.cluster.x-k8s.io/v1beta2";
const STORED: &str = "cluster.x-k8s.io/v1beta2";
const OLD: &str = "cluster.x-k8s.io/v1beta1";

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_and_goes_with_upstreams_crds() {
    let real = RealPlane::start().await.unwrap();
    let plane = AdminPlane::at(real.kubeconfig()).await;
    plane.with_webhooks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_and_goes_on_the_embedded_plane() {
    let embedded = Embedded::start().await.unwrap();
    let plane = AdminPlane::at(&embedded.kubeconfig()).await;
    plane.with_webhooks().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_and_goes_with_our_crds() {
    let real = RealPlane::start().await.unwrap();
    let plane = AdminPlane::at(real.kubeconfig()).await;
    install_crds(&plane.client, &capstan_api::crd::all()).await.unwrap();
    install_upstream_crds(&plane.client, &PROVIDERS).await.unwrap();
    let managers = plane.managers().await;
    plane.a_cluster_comes_and_goes(&managers, false).await;
}

/// Any plane, as its administrator sees it.
struct AdminPlane {
    kubeconfig: PathBuf,
    client: kube::Client,
}

impl AdminPlane {
    async fn at(kubeconfig: &Path) -> Self {
        let client = client(kubeconfig).await.unwrap();
        Self { kubeconfig: kubeconfig.to_owned(), client }
    }

    async fn managers(&self) -> UpstreamManagers {
        UpstreamManagers::start_on(&self.kubeconfig, &Manager::ALL, &FeatureGates::new()).await.unwrap()
    }

    /// With upstream's CRDs and all webhooks that convert and admit.
    async fn with_webhooks(&self) {
        let mut clock = Clock::start();
        let sets = [&[CrdSet::Core, CrdSet::Clusterctl], &PROVIDERS[..]].concat();
        install_upstream_crds(&self.client, &sets).await.unwrap();
        clock.lap("CRDs");
        // A manager must see its CRDs before it serves webhooks: so these come to the CRDs later.
        let managers = self.managers().await;
        clock.lap("four managers healthy");
        for set in sets {
            let crds = upstream_crds(set).unwrap().into_iter();
            let crds: Vec<_> = crds.map(|crd| converted_by(&managers, set, crd)).collect();
            install_crds(&self.client, &crds).await.unwrap();
        }
        let configurations = json!({"apiVersion": "v1", "kind": "List", "items": admission(&managers)});
        self.apply(&configurations.to_string()).await;
        clock.lap("webhooks");
        self.a_cluster_comes_and_goes(&managers, true).await;
    }

    async fn apply(&self, manifest: &str) {
        let args = ["apply", "--server-side", "-f", "-"];
        kubectl(&self.kubeconfig, &args, Some(manifest)).await.unwrap().success().unwrap();
    }

    async fn a_cluster_comes_and_goes(&self, managers: &UpstreamManagers, webhooks: bool) {
        let mut clock = Clock::start();
        let cluster = InMemoryCluster {
            namespace: NAMESPACE.into(),
            name: "tender".into(),
            version: "v1.36.0".into(),
            control_planes: 1,
            workers: 2,
        };
        let args = ["create", "namespace", NAMESPACE];
        kubectl(&self.kubeconfig, &args, None).await.unwrap().success().unwrap();
        self.apply(&cluster.manifest()).await;
        let clusters = namespaced(&self.client, NAMESPACE, STORED, "Cluster");
        eventually(DEADLINE, "the cluster to be available", async || {
            let cluster = clusters.get("tender").await?;
            ensure!(condition(&cluster, "Available") == Some("True"), not_true(&cluster));
            Ok(())
        })
        .await
        .unwrap();
        clock.lap("cluster available");
        eventually(DEADLINE, "three machines to be ready", async || self.machines_are_ready(3).await)
            .await
            .unwrap();
        clock.lap("all machines ready");
        if webhooks {
            self.versions_are_converted().await;
            self.what_breaks_a_rule_is_refused().await;
            clock.lap("webhooks looked at");
        }

        let deployments = namespaced(&self.client, NAMESPACE, STORED, "MachineDeployment");
        let more = Patch::Merge(json!({"spec": {"replicas": 3}}));
        deployments.patch_scale("tender-worker", &PatchParams::default(), &more).await.unwrap();
        eventually(DEADLINE, "four machines to be ready", async || self.machines_are_ready(4).await)
            .await
            .unwrap();
        clock.lap("scaled");

        self.upgrade().await;
        eventually(DEADLINE, "four machines of the new version", async || {
            self.machines_are_ready(4).await?;
            self.machines_have_version(NEWER).await
        })
        .await
        .unwrap();
        clock.lap("upgraded");

        clusters.delete("tender", &DeleteParams::default()).await.unwrap();
        eventually(DEADLINE, "everything to be gone", async || self.nothing_is_left().await).await.unwrap();
        clock.lap("everything gone");

        let complaints = complaints(managers);
        assert!(complaints.is_empty(), "the CRDs do not take all that the managers write:\n{complaints:#?}");
    }

    /// Control plane and workers, one after the other, as a user does.
    async fn upgrade(&self) {
        let planes = namespaced(&self.client, NAMESPACE, CONTROL_PLANES, "KubeadmControlPlane");
        let version = Patch::Merge(json!({"spec": {"version": NEWER}}));
        planes.patch("tender", &PatchParams::default(), &version).await.unwrap();
        eventually(DEADLINE, "the control plane to be of the new version", async || {
            let plane = planes.get("tender").await?;
            ensure!(plane.data["status"]["version"] == NEWER, "{}", plane.data["status"]["version"]);
            Ok(())
        })
        .await
        .unwrap();
        let deployments = namespaced(&self.client, NAMESPACE, STORED, "MachineDeployment");
        let version = Patch::Merge(json!({"spec": {"template": {"spec": {"version": NEWER}}}}));
        deployments.patch("tender-worker", &PatchParams::default(), &version).await.unwrap();
    }

    async fn machines_have_version(&self, version: &str) -> Result<()> {
        let machines = namespaced(&self.client, NAMESPACE, STORED, "Machine");
        for machine in machines.list(&ListParams::default()).await? {
            let found = &machine.data["spec"]["version"];
            ensure!(found == version, "{} has {found}", machine.metadata.name.unwrap_or_default());
        }
        Ok(())
    }

    async fn machines_are_ready(&self, count: usize) -> Result<()> {
        let machines = namespaced(&self.client, NAMESPACE, STORED, "Machine");
        let machines = machines.list(&ListParams::default()).await?.items;
        ensure!(machines.len() == count, "{} machines", machines.len());
        for machine in &machines {
            let name = machine.metadata.name.as_deref().unwrap_or_default();
            ensure!(condition(machine, "Ready") == Some("True"), "{name}: {}", not_true(machine));
            ensure!(machine.data["status"]["phase"] == "Running", "{name}: {}", machine.data["status"]);
            let node = machine.data.pointer("/status/nodeRef/name");
            ensure!(node.is_some(), "{name} has no node");
        }
        Ok(())
    }

    /// In the old version, references have an `apiVersion`: only the webhook knows how to put it there.
    async fn versions_are_converted(&self) {
        let old = namespaced(&self.client, NAMESPACE, OLD, "Cluster");
        let cluster = old.get("tender").await.unwrap();
        let reference = cluster.data.pointer("/spec/controlPlaneRef/apiVersion").cloned();
        assert_eq!(reference, Some(json!("controlplane.cluster.x-k8s.io/v1beta2")));
        let listed = namespaced(&self.client, NAMESPACE, OLD, "Machine").list(&ListParams::default()).await;
        let listed = listed.unwrap().items;
        assert!(
            listed.len() == 3
                && listed.iter().all(|m| m.data["spec"]["infrastructureRef"]["apiVersion"].is_string())
        );
        // A write in the old version arrives in the stored one, and takes nothing with it.
        let stored = namespaced(&self.client, NAMESPACE, STORED, "Cluster");
        let before = stored.get("tender").await.unwrap().data["spec"].clone();
        let label = Patch::Merge(json!({"metadata": {"labels": {"seen": "old"}}}));
        old.patch("tender", &PatchParams::default(), &label).await.unwrap();
        let after = stored.get("tender").await.unwrap();
        assert_eq!(after.metadata.labels.unwrap_or_default().get("seen").map(String::as_str), Some("old"));
        assert_eq!(after.data["spec"], before);
    }

    /// No schema says that the name of a cluster must not change: upstream's webhook does.
    async fn what_breaks_a_rule_is_refused(&self) {
        let deployments = namespaced(&self.client, NAMESPACE, STORED, "MachineDeployment");
        let other = Patch::Merge(json!({"spec": {"clusterName": "another"}}));
        let refused = deployments.patch("tender-worker", &PatchParams::default(), &other).await.unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("admission webhook") && text.contains("immutable"), "{text}");
    }

    async fn nothing_is_left(&self) -> Result<()> {
        const KINDS: &str = "clusters,machines,machinesets,machinedeployments,kubeadmcontrolplanes,\
                             kubeadmconfigs,kubeadmconfigtemplates,devclusters,devmachines,\
                             devmachinetemplates,secrets";
        let left = kubectl(&self.kubeconfig, &["get", KINDS, "-n", NAMESPACE, "-o", "name"], None).await?;
        let left = left.success().context("cannot list what is left")?;
        ensure!(left.trim().is_empty(), "{}", left.trim().replace('\n', ", "));
        Ok(())
    }
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
