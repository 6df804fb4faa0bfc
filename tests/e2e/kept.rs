//! Machines that people keep, on real machines with a real k3s and a health check: a worker and a server lose their power and
//! get it back, a worker's network is cut, and the manager is killed meanwhile. No Machine is deleted, no host is reset, what
//! users have stored on the machines is still there; and it is still there when the cluster is deleted.
//!
//! `CAPSTAN_CUT_SECONDS` says how long the network is cut; 600 when unset.

#![cfg(test)]

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use capstan_api::conditions::ConditionStatus;
use capstan_testkit::eventually;
use capstan_tests::{Cluster, K3S, Yard};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(300);
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";
const CORE: &str = "cluster.x-k8s.io/v1beta2";
/// Where k3s keeps the volumes of its local storage class.
const STORED: &str = "/var/lib/rancher/k3s/storage/pvc-1/data";

#[tokio::test(flavor = "multi_thread")]
async fn machines_with_data_survive_power_cuts_and_partitions() {
    let mut yard = Yard::embedded(&["first", "second", "spare"]).await.unwrap();
    yard.add_hosts(&["first"], &["second", "spare"]).await.unwrap();
    let began = Instant::now();
    let log = |what: &str| eprintln!("{:>6.1} s  {what}", began.elapsed().as_secs_f64());
    let cluster = yard.cluster("kept");
    cluster.make(1, 1, K3S[0]).await.unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    let worker = worker_host(&cluster).await.unwrap();
    watch_over(&cluster).await.unwrap();
    for host in ["first", &worker] {
        let store = format!("mkdir -p $(dirname {STORED}) && echo precious > {STORED} && sync");
        yard.machine(host).unwrap().run(&store).await.unwrap();
    }
    let before = cluster.kept().await.unwrap();
    log("a cluster with a health check and data stands");

    // The worker loses its power, until its health check has failed and the manager was killed.
    yard.machine(&worker).unwrap().pull_the_plug().await.unwrap();
    let cluster = yard.cluster("kept");
    cluster.until_condition(&worker, "HealthCheckSucceeded", ConditionStatus::False).await.unwrap();
    cluster.until_condition(&worker, "AgentConnected", ConditionStatus::False).await.unwrap();
    until_host_says(&yard, &worker, "False").await.unwrap();
    log("the worker without power is unhealthy");
    yard.kill_and_restart().await.unwrap();
    is_kept(&yard, 30).await.unwrap();
    yard.machine(&worker).unwrap().start().await.unwrap();
    is_as_before(&yard, &before, &worker).await.unwrap();
    yard.cluster("kept").until_condition(&worker, "AgentConnected", ConditionStatus::True).await.unwrap();
    until_host_says(&yard, &worker, "True").await.unwrap();
    log("the worker is back");

    // The only server does, and nothing is known of any Node meanwhile.
    yard.machine("first").unwrap().pull_the_plug().await.unwrap();
    yard.kill_and_restart().await.unwrap();
    is_kept(&yard, 60).await.unwrap();
    yard.machine("first").unwrap().start().await.unwrap();
    is_as_before(&yard, &before, &worker).await.unwrap();
    log("the server is back");

    // The worker's network is cut, with everything on it running.
    let seconds = std::env::var("CAPSTAN_CUT_SECONDS").map_or(600, |text| text.parse().unwrap());
    let cut = format!(
        "systemd-run --collect --on-active=1 sh -c 'ip link set host0 down; sleep {seconds}; ip link set host0 up'"
    );
    yard.machine(&worker).unwrap().run(&cut).await.unwrap();
    is_kept(&yard, seconds / 2).await.unwrap();
    yard.kill_and_restart().await.unwrap();
    is_kept(&yard, seconds / 2).await.unwrap();
    is_as_before(&yard, &before, &worker).await.unwrap();
    log("the network is back");

    yard.cluster("kept").delete().await.unwrap();
    yard.until_available(&["first", &worker]).await.unwrap();
    for host in ["first", &worker] {
        let data = yard.machine(host).unwrap().run(&format!("cat {STORED}")).await.unwrap();
        assert_eq!(data.trim(), "precious", "{host}");
    }
    log("the cluster is gone, and the data are there");
}

async fn worker_host(cluster: &Cluster<'_>) -> Result<String> {
    let kept = cluster.kept().await?;
    let worker = kept.into_iter().find(|(name, _)| name.contains("workers")).context("no worker")?;
    Ok(worker.1.host)
}

/// A health check of all machines, as impatient as it can be.
async fn watch_over(cluster: &Cluster<'_>) -> Result<()> {
    cluster
        .apply(&json!({
            "apiVersion": CORE, "kind": "MachineHealthCheck", "metadata": {"name": "all"},
            "spec": {
                "clusterName": "kept",
                "selector": {"matchLabels": {"cluster.x-k8s.io/cluster-name": "kept"}},
                "checks": {
                    "nodeStartupTimeoutSeconds": 60,
                    "unhealthyNodeConditions": [
                        {"type": "Ready", "status": "Unknown", "timeoutSeconds": 5},
                        {"type": "Ready", "status": "False", "timeoutSeconds": 5}],
                },
            },
        }))
        .await
}

/// Waits for what a Host says of its agent.
async fn until_host_says(yard: &Yard, host: &str, connected: &str) -> Result<()> {
    let hosts = capstan_tests::namespaced(&yard.client(), "default", INFRASTRUCTURE, "Host");
    eventually(DEADLINE, "the Host to say so", async || {
        let host = hosts.get(host).await?;
        let found = capstan_tests::condition(&host, "AgentConnected");
        ensure!(found == Some(connected), "{}", host.data["status"]["conditions"]);
        Ok(())
    })
    .await
}

/// No Machine is deleted and no host is released, at any look for so long.
async fn is_kept(yard: &Yard, seconds: u64) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        for machine in yard.cluster("kept").machines().await? {
            ensure!(machine.metadata.deletion_timestamp.is_none(), "{:?} is deleted", machine.metadata.name);
        }
        let hosts = capstan_tests::namespaced(&yard.client(), "default", INFRASTRUCTURE, "Host");
        let claimed = hosts.list(&kube::api::ListParams::default()).await?.items.into_iter();
        let claimed = claimed.filter(|host| host.data["spec"]["claim"] != Value::Null).count();
        ensure!(claimed == 2, "{claimed} hosts are claimed");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

async fn is_as_before(
    yard: &Yard,
    before: &std::collections::BTreeMap<String, capstan_tests::Kept>,
    worker: &str,
) -> Result<()> {
    let cluster = yard.cluster("kept");
    cluster.until_ready(2, K3S[0]).await?;
    let now = cluster.kept().await?;
    ensure!(now == *before, "{before:#?} became {now:#?}");
    for host in ["first", worker] {
        // Its network may come back a moment later.
        let data = eventually(DEADLINE, "the machine to be reached", async || {
            yard.machine(host)?.run(&format!("cat {STORED}")).await
        });
        let data = data.await?;
        ensure!(data.trim() == "precious", "{host}: {data}");
    }
    Ok(())
}
