//! What people read when they describe a Host, a HostMachine or a HostPool.

use anyhow::ensure;
use capstan_api::infrastructure::{Host, HostMachine, HostPool};
use capstan_testkit::eventually;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::yard::{DEADLINE, Yard};

/// Reasons of the events of an object and how often each was told, by reason.
async fn told(yard: &Yard, kind: &str, name: &str) -> Vec<(String, i32)> {
    let all = yard.api::<Event>().list(&ListParams::default()).await.unwrap();
    let of_object = |event: &&Event| {
        let object = &event.involved_object;
        object.kind.as_deref() == Some(kind) && object.name.as_deref() == Some(name)
    };
    let mut told: Vec<_> = all
        .iter()
        .filter(of_object)
        .map(|event| (event.reason.clone().unwrap(), event.count.unwrap()))
        .collect();
    told.sort();
    told
}

async fn tells(yard: &Yard, kind: &str, name: &str, expected: &[(&str, i32)]) {
    eventually(DEADLINE, &format!("events of {kind} {name}"), async || {
        let found = told(yard, kind, name).await;
        let found: Vec<(&str, i32)> = found.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        ensure!(found == expected, "{found:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_an_outage_and_a_release_are_told_once() {
    let yard = Yard::start().await;
    yard.host("h", "west", "10.0.0.1").await;
    yard.machine("m", "h").await;
    yard.says::<HostMachine>("m", "Ready", "Ready").await;
    tells(&yard, "Host", "h", &[("Claimed", 1)]).await;
    tells(&yard, "HostMachine", "m", &[("BootstrapStarted", 1), ("HostClaimed", 1)]).await;

    yard.bench.set("h", |answers| answers.error = Some("no answer".to_owned()));
    yard.ask_again("h").await;
    yard.says::<Host>("h", "Reachable", "Unreachable").await;
    yard.ask_again("h").await;
    yard.api::<HostMachine>().delete("m", &DeleteParams::default()).await.unwrap();
    yard.says::<HostMachine>("m", "Deleting", "HostUnreachable").await;
    let outage = [("BootstrapStarted", 1), ("HostClaimed", 1), ("ResetFailed", 1)];
    tells(&yard, "HostMachine", "m", &outage).await;
    yard.bench.set("h", |answers| answers.error = None);
    yard.ask_again("h").await;
    yard.says::<Host>("h", "Reachable", "Reachable").await;

    let whole = [("Claimed", 1), ("HostReachable", 1), ("HostUnreachable", 1), ("Released", 1)];
    tells(&yard, "Host", "h", &whole).await;
    let whole = [("BootstrapStarted", 1), ("HostClaimed", 1), ("HostReleased", 1), ("ResetFailed", 1)];
    tells(&yard, "HostMachine", "m", &whole).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_tells_which_hosts_it_makes_and_deletes() {
    let yard = Yard::start().await;
    yard.create::<HostPool>("p", json!({}), json!({"simulated": {}, "replicas": 3})).await;
    yard.says::<HostPool>("p", "HostsUpToDate", "UpToDate").await;
    tells(&yard, "HostPool", "p", &[("HostsCreated", 1)]).await;
    yard.change::<HostPool>("p", json!({"spec": {"replicas": 1}})).await;
    tells(&yard, "HostPool", "p", &[("HostsCreated", 1), ("HostsDeleted", 1)]).await;
    eventually(DEADLINE, "one Host to be left", async || {
        let left = yard.api::<Host>().list(&ListParams::default()).await?.items;
        ensure!(left.len() == 1, "{}", left.len());
        Ok(())
    })
    .await
    .unwrap();
}
