//! A real cluster of one server and one worker, from two machines that can be reached over SSH to two machines that are
//! as they were: made, changed in place, deleted.

#![cfg(test)]

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use capstan_api::conditions::ConditionStatus;
use capstan_testkit::TestMachine;
use capstan_tests::{Cluster, K3S, Yard};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_two_is_made_changed_in_place_and_deleted() {
    let mut yard = Yard::embedded(&["first", "second"]).await.unwrap();
    yard.add_hosts(&["first"], &["second"]).await.unwrap();

    let began = Instant::now();
    let cluster = yard.cluster("small");
    cluster.make(1, 1, K3S[0]).await.unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    eprintln!("the cluster stands after {:.1} s", began.elapsed().as_secs_f64());
    cluster.run_pods().await.unwrap();
    for host in ["first", "second"] {
        cluster.until_condition(host, "AgentConnected", ConditionStatus::True).await.unwrap();
    }
    let before = cluster.kept().await.unwrap();

    // A configuration that restarts k3s on the server, and is nothing to the worker.
    let (server, worker) = (yard.machine("first").unwrap(), yard.machine("second").unwrap());
    let started = [process(server, "k3s").await, process(worker, "k3s-agent").await];
    let began = Instant::now();
    // When memory runs out, the kernel ends a command before the agent. The command fails, and its plan, if it is protected.
    let unprotected = ["/bin/sh", "-c", "test $(cat /proc/self/oom_score_adj) = 0"];
    let after = json!([{"name": "unprotected", "command": unprotected}]);
    let change = json!({"config": {"settings": {"debug": true}, "after": after}});
    cluster.change_control_plane(change).await.unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    eprintln!("changed after {:.1} s", began.elapsed().as_secs_f64());
    let config = server.run("cat /etc/rancher/k3s/config.yaml").await.unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["debug"], true, "{config}");
    // Of the unit, not of its process: in a container systemd may not protect it.
    let protection =
        server.run("systemctl show capstan-agent --property OOMScoreAdjust --value").await.unwrap();
    assert_eq!(protection.trim(), "-900");
    let policy = server.run("systemctl show capstan-agent --property OOMPolicy --value").await.unwrap();
    assert_eq!(policy.trim(), "continue");
    assert_ne!(process(server, "k3s").await, started[0], "the server was not started again");
    assert_eq!(process(worker, "k3s-agent").await, started[1], "the worker was started again");
    assert_eq!(cluster.kept().await.unwrap(), before);

    workers_cannot_use_what_servers_can(&yard, &cluster).await.unwrap();
    cluster.delete().await.unwrap();
    yard.until_available(&["first", "second"]).await.unwrap();
}

/// Tokens of servers, and of workers.
async fn tokens(yard: &Yard) -> Result<(String, Option<String>)> {
    let data = yard.api::<Secret>().get("small-token").await?.data.unwrap_or_default();
    let text = |key: &str| data.get(key).and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
    Ok((text("value").context("no token of servers")?, text("agent")))
}

async fn config(machine: &TestMachine) -> Result<Value> {
    Ok(serde_json::from_str(&machine.run("cat /etc/rancher/k3s/config.yaml").await?)?)
}

/// The keys of the CAs are for servers only: nothing on a worker opens them.
async fn workers_cannot_use_what_servers_can(yard: &Yard, cluster: &Cluster<'_>) -> Result<()> {
    let (server_token, agent_token) = tokens(yard).await?;
    let agent_token = agent_token.context("no token of workers")?;
    let worker = yard.machine("second")?;
    let endpoint = config(worker).await?["server"].as_str().context("no endpoint")?.to_owned();
    for (user, password, allowed) in [
        ("server", &server_token, true),
        ("server", &agent_token, false),
        ("node", &agent_token, false),
        ("node", &server_token, false),
    ] {
        let ask = format!(
            "curl --silent --insecure --output /dev/null --write-out '%{{http_code}}' --user {user}:{password} \
             {endpoint}/v1-k3s/server-bootstrap"
        );
        let code = worker.run(&ask).await?;
        let expected: &[&str] = if allowed { &["200"] } else { &["401", "403"] };
        ensure!(expected.contains(&code.trim()), "user {user}: {code} instead of one of {expected:?}");
    }
    let holding = async |machine: &TestMachine, token: &str| {
        let search = "grep --recursive --files-with-matches --no-messages --fixed-strings --devices=skip";
        machine
            .run(&format!("{search} -- {token} /etc /opt/capstan /var/lib/capstan /var/lib/rancher || true"))
            .await
    };
    let found = holding(worker, &server_token).await?;
    ensure!(found.trim().is_empty(), "the token of servers is on a worker: {found}");
    let found = holding(worker, &agent_token).await?;
    ensure!(found.contains("/etc/rancher/k3s/config.yaml"), "nothing was searched: {found}");
    let found = holding(yard.machine("first")?, &server_token).await?;
    ensure!(found.contains("/etc/rancher/k3s/config.yaml"), "a server has no token: {found}");
    ensure!(cluster.nodes().await?.len() == 2, "a Node is missing");
    Ok(())
}

/// The process of a unit that runs, told from any that ran before it.
async fn process(machine: &TestMachine, unit: &str) -> String {
    let words =
        format!("systemctl show {unit} --property MainPID,ExecMainStartTimestampMonotonic,ActiveState");
    let properties = machine.run(&words).await.unwrap();
    assert!(properties.contains("ActiveState=active"), "{unit}: {properties}");
    properties
}
