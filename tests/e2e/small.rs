//! A real cluster of one server and one worker, from two machines that can be reached over SSH to two machines that are
//! as they were: made, changed in place, deleted.

#![cfg(test)]

use std::time::Instant;

use capstan_testkit::TestMachine;
use capstan_tests::{K3S, Yard};
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
    let before = cluster.kept().await.unwrap();

    // A configuration that restarts k3s on the server, and is nothing to the worker.
    let (server, worker) = (yard.machine("first").unwrap(), yard.machine("second").unwrap());
    let started = [process(server, "k3s").await, process(worker, "k3s-agent").await];
    let began = Instant::now();
    cluster.change_control_plane(json!({"config": {"settings": {"debug": true}}})).await.unwrap();
    cluster.until_ready(2, K3S[0]).await.unwrap();
    eprintln!("changed after {:.1} s", began.elapsed().as_secs_f64());
    let config = server.run("cat /etc/rancher/k3s/config.yaml").await.unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["debug"], true, "{config}");
    assert_ne!(process(server, "k3s").await, started[0], "the server was not started again");
    assert_eq!(process(worker, "k3s-agent").await, started[1], "the worker was started again");
    assert_eq!(cluster.kept().await.unwrap(), before);

    cluster.delete().await.unwrap();
    yard.until_available(&["first", "second"]).await.unwrap();
}

/// The process of a unit that runs, told from any that ran before it.
async fn process(machine: &TestMachine, unit: &str) -> String {
    let words =
        format!("systemctl show {unit} --property MainPID,ExecMainStartTimestampMonotonic,ActiveState");
    let properties = machine.run(&words).await.unwrap();
    assert!(properties.contains("ActiveState=active"), "{unit}: {properties}");
    properties
}
