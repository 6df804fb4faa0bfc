//! Real clusters through their lives: three servers and workers come up, are scaled, upgraded in place while agents,
//! machines and the manager die, shrink to one server and grow again, and go; and the same machines serve a second
//! cluster after them.

#![cfg(test)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use capstan_api::agent::{MachineReport, PlanPhase};
use capstan_testkit::eventually;
use capstan_tests::{Cluster, K3S, Yard};
use kube::api::ListParams;
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(600);
const SERVERS: [&str; 3] = ["s1", "s2", "s3"];
const WORKERS: [&str; 2] = ["w1", "w2"];

#[tokio::test(flavor = "multi_thread")]
async fn clusters_live_on_machines_that_stay() {
    let mut yard = Yard::embedded(&[&SERVERS[..], &WORKERS[..]].concat()).await.unwrap();
    yard.add_hosts(&SERVERS, &WORKERS).await.unwrap();
    let clock = Clock::new();
    three_servers_come_up(&yard, &clock).await.unwrap();
    workers_are_scaled(&yard, &clock).await.unwrap();
    everything_is_upgraded_while_things_die(&mut yard, &clock).await.unwrap();
    servers_are_scaled(&yard, &clock).await.unwrap();

    yard.cluster("first").delete().await.unwrap();
    yard.until_available(&[&SERVERS[..], &WORKERS[..]].concat()).await.unwrap();
    clock.print("deleted, and every host is clean");

    one_server_is_upgraded_alone(&yard, &clock).await.unwrap();
    yard.cluster("second").delete().await.unwrap();
    yard.until_available(&[&SERVERS[..], &WORKERS[..]].concat()).await.unwrap();
    clock.print("deleted again");
}

async fn three_servers_come_up(yard: &Yard, clock: &Clock) -> Result<()> {
    let cluster = yard.cluster("first");
    cluster.make(3, 1, K3S[0]).await?;
    cluster.until_ready(4, K3S[0]).await?;
    ensure!(members(yard, &cluster).await? == 3, "etcd has other members");
    cluster.run_pods().await?;
    clock.print("three servers and a worker stand");
    Ok(())
}

async fn workers_are_scaled(yard: &Yard, clock: &Clock) -> Result<()> {
    let cluster = yard.cluster("first");
    let before = cluster.kept().await?;
    cluster.change_workers(json!({"replicas": 2})).await?;
    cluster.until_ready(5, K3S[0]).await?;
    let now = cluster.kept().await?;
    ensure!(before.iter().all(|(name, kept)| now.get(name) == Some(kept)), "{before:?} {now:?}");
    cluster.change_workers(json!({"replicas": 1})).await?;
    cluster.until_ready(4, K3S[0]).await?;
    let kept = cluster.kept().await?;
    let free = WORKERS.into_iter().find(|name| !kept.values().any(|kept| kept.host == **name));
    yard.until_available(&[free.context("no worker is free")?]).await?;
    clock.print("a worker came and went");
    Ok(())
}

async fn everything_is_upgraded_while_things_die(yard: &mut Yard, clock: &Clock) -> Result<()> {
    let cluster = yard.cluster("first");
    cluster.run_pods().await?;
    let (before, born) = (cluster.kept().await?, born(yard, &cluster).await?);
    cluster.change_control_plane(json!({"version": K3S[1]})).await?;
    cluster.change_workers(json!({"template": {"spec": {"version": K3S[1]}}})).await?;

    // The agent of the first server that is at it dies, then the manager, and the next server loses its power.
    let first = at_work(yard, &[]).await?;
    yard.machine(&first)?.run("systemctl kill --signal=KILL capstan-agent").await?;
    clock.print(&format!("killed the agent on {first}"));
    yard.kill_and_restart().await?;
    clock.print("killed the manager");
    let second = at_work(yard, &[&first]).await?;
    yard.machine(&second)?.pull_the_plug().await?;
    yard.machine(&second)?.start().await?;
    clock.print(&format!("pulled the plug of {second}"));

    let cluster = yard.cluster("first");
    cluster.until_ready(4, K3S[1]).await?;
    let (now, still) = (cluster.kept().await?, self::born(yard, &cluster).await?);
    ensure!(now == before, "{before:#?} became {now:#?}");
    ensure!(still == born, "{born:?} became {still:?}");
    ensure!(members(yard, &cluster).await? == 3, "etcd has other members");
    for kept in now.values().filter(|kept| SERVERS.contains(&kept.host.as_str())) {
        let snapshots = "ls /var/lib/rancher/k3s/server/db/snapshots";
        let snapshots = yard.machine(&kept.host)?.run(snapshots).await?;
        ensure!(snapshots.contains("capstan"), "{}: no snapshot was saved: {snapshots}", kept.host);
    }
    clock.print("everything is upgraded in place");
    Ok(())
}

async fn servers_are_scaled(yard: &Yard, clock: &Clock) -> Result<()> {
    let cluster = yard.cluster("first");
    let before = cluster.kept().await?;
    cluster.change_control_plane(json!({"replicas": 1})).await?;
    cluster.until_ready(2, K3S[1]).await?;
    ensure!(members(yard, &cluster).await? == 1, "etcd has other members");
    clock.print("one server is left");
    cluster.change_control_plane(json!({"replicas": 3})).await?;
    cluster.until_ready(4, K3S[1]).await?;
    ensure!(members(yard, &cluster).await? == 3, "etcd has other members");
    let now = cluster.kept().await?;
    let stayed = before.iter().filter(|(name, kept)| now.get(*name) == Some(kept)).count();
    ensure!(stayed == 2, "{before:?} became {now:?}");
    clock.print("three servers again");
    Ok(())
}

/// The same machines, another cluster; its only server is upgraded without a second one.
async fn one_server_is_upgraded_alone(yard: &Yard, clock: &Clock) -> Result<()> {
    let cluster = yard.cluster("second");
    cluster.make(1, 1, K3S[0]).await?;
    cluster.until_ready(2, K3S[0]).await?;
    cluster.run_pods().await?;
    clock.print("a second cluster stands");
    let (before, born) = (cluster.kept().await?, born(yard, &cluster).await?);
    cluster.change_control_plane(json!({"version": K3S[1]})).await?;
    cluster.change_workers(json!({"template": {"spec": {"version": K3S[1]}}})).await?;
    cluster.until_ready(2, K3S[1]).await?;
    ensure!(cluster.kept().await? == before, "{before:?} became {:?}", cluster.kept().await?);
    ensure!(self::born(yard, &cluster).await? == born, "data were lost");
    clock.print("its only server is upgraded");
    Ok(())
}

/// The host of a server, other than these, that is carrying out a plan right now.
async fn at_work(yard: &Yard, other_than: &[&str]) -> Result<String> {
    let cluster = yard.cluster("first");
    eventually(DEADLINE, "another server to be at work", async || {
        // While a server restarts, its cluster may not answer: the reports are on the management plane.
        let reports = yard.api::<MachineReport>().list(&ListParams::default()).await?.items;
        for report in reports {
            let status = report.status.unwrap_or_default();
            let name = report.metadata.name.unwrap_or_default();
            if status.phase == Some(PlanPhase::Applying) && name.contains("control-plane") {
                let host = cluster.host_of(&name).await?;
                if !other_than.contains(&host.as_str()) {
                    return Ok(host);
                }
            }
        }
        anyhow::bail!("nobody is at work")
    })
    .await
}

/// What the pods wrote on their machines when they first started there.
async fn born(yard: &Yard, cluster: &Cluster<'_>) -> Result<BTreeMap<String, String>> {
    let mut born = BTreeMap::new();
    for kept in cluster.kept().await?.into_values() {
        let text = yard.machine(&kept.host)?.run("cat /srv/kept/born").await?;
        born.insert(kept.host, text);
    }
    Ok(born)
}

/// How many members etcd has, asked of etcd itself.
async fn members(yard: &Yard, cluster: &Cluster<'_>) -> Result<usize> {
    let kept = cluster.kept().await?;
    let server = kept.values().find(|kept| SERVERS.contains(&kept.host.as_str())).context("no server")?;
    let ask = "cd /var/lib/rancher/k3s/server/tls/etcd && curl --silent --show-error --fail --cacert server-ca.crt \
               --cert client.crt --key client.key -X POST -d '{}' https://127.0.0.1:2382/v3/cluster/member/list";
    let answer: Value = serde_json::from_str(&yard.machine(&server.host)?.run(ask).await?)?;
    Ok(answer["members"].as_array().context("no members")?.len())
}

/// What has happened so far, and when.
struct Clock(Instant);

impl Clock {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn print(&self, what: &str) {
        eprintln!("{:>6.1} s  {what}", self.0.elapsed().as_secs_f64());
    }
}
