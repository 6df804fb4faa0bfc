//! Machines that nobody can reach: they are behind a router that masquerades, register themselves and dial out. From registration through a
//! cluster, changes in place and a restart of the management plane to the reset.

use anyhow::{Result, ensure};
use capstan_api::conditions::ConditionStatus;
use capstan_api::infrastructure::HostRegistration;
use capstan_testkit::eventually;
use capstan_tests::{Cluster, K3S, Yard};
use kube::api::ListParams;
use serde_json::{Value, json};
use std::time::Duration;

const HOSTS: [&str; 2] = ["edge", "worker"];
const DEADLINE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn machines_behind_a_router_live_in_a_cluster_and_come_back() {
    let mut yard = Yard::behind_a_router(&HOSTS).await.unwrap();
    for host in HOSTS {
        assert!(!yard.plane_reaches(host).unwrap(), "{host} can be reached");
    }
    yard.balance(&["edge"]).await.unwrap();
    yard.register_hosts(&["edge"], "server").await.unwrap();
    yard.register_hosts(&["worker"], "worker").await.unwrap();

    let cluster = yard.cluster("far");
    cluster.make(1, 1, K3S[0]).await.unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    for host in HOSTS {
        cluster.until_condition(host, "AgentConnected", ConditionStatus::True).await.unwrap();
    }
    let kept = cluster.kept().await.unwrap();
    yard.kill_and_restart().await.unwrap();
    change(&yard, "far").await.unwrap();
    assert_eq!(yard.cluster("far").kept().await.unwrap(), kept);

    yard.cluster("far").delete().await.unwrap();
    yard.until_available(&HOSTS).await.unwrap();

    // They can be used again, also after a restart, without another registration.
    for host in HOSTS {
        yard.machine(host).unwrap().reboot().await.unwrap();
    }
    let cluster = yard.cluster("again");
    cluster.make(1, 1, K3S[0]).await.unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    cluster.delete().await.unwrap();
    yard.until_available(&HOSTS).await.unwrap();

    // A machine that leaves takes everything with it.
    for host in HOSTS {
        yard.capstan(&["host", "remove", host]).unwrap();
        let machine = yard.machine(host).unwrap();
        machine.run("/opt/capstan-host/capstan-agent unregister").await.unwrap();
        let left = "ls -d /opt/capstan-host /etc/capstan-host /var/lib/capstan-host /etc/systemd/system/capstan-host.service";
        let left = machine.run(&format!("{left} 2>/dev/null; true")).await.unwrap();
        assert_eq!(left.trim(), "", "{host}");
    }
    eventually(DEADLINE, "the registrations to be gone", async || {
        let left = yard.api::<HostRegistration>().list(&ListParams::default()).await?.items;
        ensure!(left.is_empty(), "{} are left", left.len());
        Ok(())
    })
    .await
    .unwrap();
}

/// Changes a setting of the server in place.
async fn change(yard: &Yard, name: &str) -> Result<()> {
    let cluster: Cluster<'_> = yard.cluster(name);
    cluster.change_control_plane(json!({"config": {"settings": {"debug": true}}})).await?;
    cluster.until_ready(2, K3S[0]).await?;
    let config = yard.machine("edge")?.run("cat /etc/rancher/k3s/config.yaml").await?;
    let config: Value = serde_json::from_str(&config)?;
    ensure!(config["debug"] == true, "{config}");
    Ok(())
}
