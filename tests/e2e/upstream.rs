//! A real cluster of one server and one worker under upstream's core: real machines, a real API server, upstream's
//! controllers for Clusters and Machines, and Capstan's providers and hooks. The worker is changed in place by
//! upstream's own controllers; what cannot be made in place is refused by name.

#![cfg(test)]

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use capstan_testkit::eventually;
use capstan_tests::{Cluster, K3S, Yard, is_refused};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// A change of one machine takes well under a minute where nothing else runs.
const DEADLINE: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_core_makes_changes_and_deletes_a_cluster_of_two() {
    let mut yard = Yard::under_upstreams_core(&["first", "second"]).await.unwrap();
    yard.add_hosts(&["first"], &["second"]).await.unwrap();
    let mut clock = Instant::now();
    let mut lap = |what: &str| {
        eprintln!("{what} after {:.1} s", clock.elapsed().as_secs_f64());
        clock = Instant::now();
    };

    let cluster = yard.cluster("harbour");
    cluster.make(1, 1, K3S[0]).await.unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    lap("the cluster stands");
    cluster.run_pods().await.unwrap();
    let before = cluster.kept().await.unwrap();
    let born = yard.machine("second").unwrap().run("cat /srv/kept/born").await.unwrap();

    // Another template, which restarts k3s on the worker.
    setup(&cluster, "roomy", json!({"distro": "k3s", "settings": {"kubelet-arg": ["max-pods=77"]}})).await;
    cluster.change_workers(refers_to("roomy")).await.unwrap();
    eventually(DEADLINE, "the worker to have its new setup", async || {
        let pods = capacity(&worker(&cluster).await?);
        ensure!(pods.as_deref() == Some("77"), "it takes {pods:?} pods");
        Ok(())
    })
    .await
    .unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    lap("another setup");
    assert_eq!(cluster.kept().await.unwrap(), before);

    // Another version, asked of the worker first: it has to wait for the control plane.
    cluster.change_workers(json!({"template": {"spec": {"version": K3S[1]}}})).await.unwrap();
    cluster.change_control_plane(json!({"version": K3S[1]})).await.unwrap();
    cluster.until_ready(2, K3S[1]).await.unwrap();
    lap("another version");
    assert_eq!(cluster.kept().await.unwrap(), before);
    assert_eq!(capacity(&worker(&cluster).await.unwrap()).as_deref(), Some("77"));
    let kept = yard.machine("second").unwrap().run("cat /srv/kept/born").await.unwrap();
    assert_eq!(kept, born, "what is local to the machine");

    // What cannot be made in place.
    setup(&cluster, "impossible", json!({"distro": "rke2"})).await;
    let field = "CapstanConfigTemplate impossible spec.template.spec.distro";
    is_refused(&yard.client(), &cluster.workers(), &refers_to("impossible"), field).await.unwrap();
    lap("refused twice");
    cluster.change_workers(refers_to("roomy")).await.unwrap();
    cluster.until_ready(2, K3S[1]).await.unwrap();
    assert_eq!(cluster.kept().await.unwrap(), before);

    cluster.delete().await.unwrap();
    yard.until_available(&["first", "second"]).await.unwrap();
    lap("everything gone, hosts clean");
}

async fn setup(cluster: &Cluster<'_>, name: &str, spec: Value) {
    let template = json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfigTemplate",
        "metadata": {"name": name}, "spec": {"template": {"spec": spec}},
    });
    cluster.apply(&template).await.unwrap();
}

fn refers_to(name: &str) -> Value {
    json!({"template": {"spec": {"bootstrap": {"configRef": {"name": name}}}}})
}

/// The Node that is no server.
async fn worker(cluster: &Cluster<'_>) -> Result<Node> {
    let nodes = cluster.nodes().await?;
    let is_server = |node: &Node| node.labels().contains_key("node-role.kubernetes.io/control-plane");
    nodes.into_iter().find(|node| !is_server(node)).context("there is no worker")
}

/// As many pods as a Node takes.
fn capacity(node: &Node) -> Option<String> {
    let capacity = node.status.as_ref()?.capacity.as_ref()?;
    capacity.get("pods").map(|quantity| quantity.0.clone())
}
