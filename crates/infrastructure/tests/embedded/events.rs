//! What people read when they describe a Host, a HostMachine or a HostPool.

use anyhow::ensure;
use capstan_api::infrastructure::{Host, HostMachine, HostPool};
use capstan_testkit::eventually;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::yard::{DEADLINE, Yard};

/// Reasons of the events of an object and how often each was told, by reason.
async fn events_of(yard: &Yard, kind: &str, name: &str) -> Vec<(String, i32)> {
    let all = yard.api::<Event>().list(&ListParams::default()).await.unwrap();
    let of_object = |event: &&Event| {
        let object = &event.involved_object;
        object.kind.as_deref() == Some(kind) && object.name.as_deref() == Some(name)
    };
    let mut events_of: Vec<_> = all
        .iter()
        .filter(of_object)
        .map(|event| (event.reason.clone().unwrap(), event.count.unwrap()))
        .collect();
    events_of.sort();
    events_of
}

async fn has_events(yard: &Yard, kind: &str, name: &str, expected: &[(&str, i32)]) {
    eventually(DEADLINE, &format!("events of {kind} {name}"), async || {
        let found = events_of(yard, kind, name).await;
        let found: Vec<(&str, i32)> = found.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        ensure!(found == expected, "{found:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_an_outage_and_a_release_are_published_once() {
    let yard = Yard::start().await;
    yard.host("h", "west", "10.0.0.1").await;
    yard.machine("m", "h").await;
    yard.says::<HostMachine>("m", "Ready", "Ready").await;
    has_events(&yard, "HostMachine", "m", &[("HostClaimed", 1)]).await;
    has_events(&yard, "Host", "h", &[]).await;

    yard.bench.set("h", |answers| answers.error = Some("no answer".to_owned()));
    yard.ask_again("h").await;
    yard.says::<Host>("h", "Reachable", "Unreachable").await;
    yard.ask_again("h").await;
    yard.api::<HostMachine>().delete("m", &DeleteParams::default()).await.unwrap();
    yard.says::<HostMachine>("m", "Deleting", "HostUnreachable").await;
    has_events(&yard, "HostMachine", "m", &[("HostClaimed", 1), ("HostUnreachable", 1)]).await;
    yard.bench.set("h", |answers| answers.error = None);
    yard.ask_again("h").await;
    yard.says::<Host>("h", "Reachable", "Reachable").await;

    let whole = [("HostReachable", 1), ("Released", 1), ("Unreachable", 1)];
    has_events(&yard, "Host", "h", &whole).await;
    let whole = [("HostClaimed", 1), ("HostReleased", 1), ("HostUnreachable", 1)];
    has_events(&yard, "HostMachine", "m", &whole).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_person_is_published_once_and_without_the_output_of_commands() {
    let yard = Yard::start().await;
    yard.host("h", "west", "10.0.0.1").await;
    yard.bench.set("h", |answers| {
        answers.fails = Some("token=abc".to_owned());
        answers.left = vec!["/etc/rancher".to_owned()];
    });
    yard.machine("m", "h").await;
    let condition = yard.says::<HostMachine>("m", "BootstrapExecuted", "BootstrapFailed").await;
    assert!(condition.contains("token=abc"), "{condition}");
    has_events(&yard, "HostMachine", "m", &[("BootstrapFailed", 1), ("HostClaimed", 1)]).await;
    let all = yard.api::<Event>().list(&ListParams::default()).await.unwrap();
    let failed = all.iter().find(|event| event.reason.as_deref() == Some("BootstrapFailed")).unwrap();
    let message = failed.message.as_deref().unwrap();
    assert!(message.contains("exit code 7") && !message.contains("token"), "{message}");

    yard.api::<HostMachine>().delete("m", &DeleteParams::default()).await.unwrap();
    yard.says::<Host>("h", "Ready", "Quarantined").await;
    has_events(&yard, "Host", "h", &[("Quarantined", 1)]).await;
    let whole = [("BootstrapFailed", 1), ("HostClaimed", 1), ("ResetFailed", 1)];
    has_events(&yard, "HostMachine", "m", &whole).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_publishes_which_hosts_it_creates_and_deletes() {
    let yard = Yard::start().await;
    yard.create::<HostPool>("p", json!({}), json!({"simulated": {}, "replicas": 3})).await;
    yard.says::<HostPool>("p", "HostsUpToDate", "UpToDate").await;
    has_events(&yard, "HostPool", "p", &[("HostsCreated", 1)]).await;
    yard.change::<HostPool>("p", json!({"spec": {"replicas": 1}})).await;
    has_events(&yard, "HostPool", "p", &[("HostsCreated", 1), ("HostsDeleted", 1)]).await;
    eventually(DEADLINE, "one Host to be left", async || {
        let left = yard.api::<Host>().list(&ListParams::default()).await?.items;
        ensure!(left.len() == 1, "{}", left.len());
        Ok(())
    })
    .await
    .unwrap();
}
