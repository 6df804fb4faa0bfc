//! A machine that waits for a host goes on when that host changes, not when it is looked at again.

use anyhow::ensure;
use capstan_api::infrastructure::{Host, HostMachine};
use capstan_testkit::eventually;
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

use super::yard::Yard;

/// Shorter than the time after which a machine that waits is looked at again.
const AT_ONCE: Duration = Duration::from_secs(12);

async fn says_at_once(yard: &Yard, machine: &str, condition: &str, reason: &str) -> String {
    timeout(AT_ONCE, yard.says::<HostMachine>(machine, condition, reason)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_wakes_the_machines_that_wait_for_it() {
    let yard = Yard::start().await;
    yard.host("other", "west", "10.0.0.1").await;
    yard.machine("any", "h").await;
    yard.machine_with("named", json!({"hostName": "g"})).await;
    says_at_once(&yard, "any", "HostClaimed", "NoHostAvailable").await;
    says_at_once(&yard, "named", "HostClaimed", "HostNotAvailable").await;

    yard.host("h", "west", "10.0.0.2").await;
    says_at_once(&yard, "any", "Ready", "Ready").await;

    let taken = json!({"id": "x", "machineName": "y", "clusterName": "z"});
    yard.create::<Host>("g", json!({}), json!({"simulated": {}, "claim": taken})).await;
    eventually(AT_ONCE, "the words about g", async || {
        let message = yard.says::<HostMachine>("named", "HostClaimed", "HostNotAvailable").await;
        ensure!(message.contains("is claimed"), "{message}");
        Ok(())
    })
    .await
    .unwrap();
    yard.change::<Host>("g", json!({"spec": {"claim": null}})).await;
    says_at_once(&yard, "named", "Ready", "Ready").await;
}
