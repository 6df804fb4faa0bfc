//! The addresses of a machine follow its host.

use anyhow::ensure;
use capstan_api::infrastructure::{Host, HostMachine};
use capstan_testkit::eventually;

use super::yard::{DEADLINE, Yard};

async fn addresses(yard: &Yard, machine: &str) -> Vec<String> {
    let status = yard.api::<HostMachine>().get(machine).await.unwrap().status.unwrap_or_default();
    status.addresses.into_iter().map(|address| address.address).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provisioned_machine_has_the_address_that_its_host_has_now() {
    let yard = Yard::start().await;
    yard.host("h", "west", "10.0.0.1").await;
    yard.machine("m", "h").await;
    yard.says::<HostMachine>("m", "Ready", "Ready").await;
    assert_eq!(addresses(&yard, "m").await, ["10.0.0.1"]);

    yard.bench.set("h", |answers| answers.addresses = vec!["10.0.0.2".to_owned()]);
    yard.ask_again("h").await;
    eventually(DEADLINE, "the new address", async || {
        let found = addresses(&yard, "m").await;
        ensure!(found == ["10.0.0.2"], "{found:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_says_nothing_of_its_addresses_keeps_the_last_ones() {
    let yard = Yard::start().await;
    yard.host("h", "west", "10.0.0.1").await;
    yard.machine("m", "h").await;
    yard.says::<HostMachine>("m", "Ready", "Ready").await;
    yard.bench.set("h", |answers| answers.addresses.clear());
    yard.bench.set("h", |answers| answers.error = Some("no answer".to_owned()));
    yard.ask_again("h").await;
    yard.says::<Host>("h", "Reachable", "Unreachable").await;
    yard.bench.set("h", |answers| answers.error = None);
    yard.ask_again("h").await;
    yard.says::<Host>("h", "Reachable", "Reachable").await;
    let host = yard.api::<Host>().get("h").await.unwrap().status.unwrap();
    assert_eq!(host.addresses.len(), 1, "{host:?}");
    assert_eq!(addresses(&yard, "m").await, ["10.0.0.1"]);
}
