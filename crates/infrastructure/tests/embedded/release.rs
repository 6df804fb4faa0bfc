//! A host whose machine is deleted: claimed until a reset was verified, whatever happens meanwhile.

use anyhow::ensure;
use capstan_api::infrastructure::{Host, HostMachine, HostState};
use capstan_testkit::eventually;
use kube::api::DeleteParams;

use super::yard::{DEADLINE, Yard};

async fn delete(yard: &Yard, machine: &str) {
    yard.api::<HostMachine>().delete(machine, &DeleteParams::default()).await.unwrap();
}

async fn released(yard: &Yard, host: &str) -> Host {
    eventually(DEADLINE, &format!("Host {host} to be released"), async || {
        let found = yard.api::<Host>().get(host).await?;
        ensure!(found.spec.claim.is_none(), "{:?}", found.spec.claim);
        Ok(found)
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_host_stays_claimed_says_so_and_is_reset_when_it_is_back() {
    let yard = Yard::start().await;
    yard.host("h", "west", "10.0.0.1").await;
    yard.machine("m", "h").await;
    yard.says::<HostMachine>("m", "Ready", "Ready").await;
    let claim = yard.api::<HostMachine>().get("m").await.unwrap().spec.claim_id.unwrap();
    yard.bench.set("h", |answers| answers.error = Some("no answer".to_owned()));
    yard.ask_again("h").await;
    delete(&yard, "m").await;

    let of_machine = yard.says::<HostMachine>("m", "Deleting", "HostUnreachable").await;
    for part in ["no answer", "tried since 20", "capstan host abandon h"] {
        assert!(of_machine.contains(part), "{of_machine}");
    }
    // The Host says what its HostMachine says.
    eventually(DEADLINE, "the Host to say why", async || {
        let of_host = yard.says::<Host>("h", "Ready", "Releasing").await;
        ensure!(of_host.ends_with(&of_machine), "{of_host}");
        Ok(())
    })
    .await
    .unwrap();
    let host = yard.api::<Host>().get("h").await.unwrap();
    assert_eq!(host.status.unwrap().state, Some(HostState::Releasing));

    // Another machine asks for the same host and does not get it.
    yard.machine("other", "h").await;
    let message = yard.says::<HostMachine>("other", "HostClaimed", "NoHostAvailable").await;
    assert!(message.contains("claimed"), "{message}");
    assert_eq!(yard.api::<Host>().get("h").await.unwrap().spec.claim.unwrap().id, claim);
    delete(&yard, "other").await;

    // It answers again: it is reset, which takes a while, and is released only after that.
    yard.bench.set("h", |answers| (answers.error, answers.keeps_resetting) = (None, true));
    yard.ask_again("h").await;
    yard.says::<HostMachine>("m", "Deleting", "ResettingHost").await;
    assert!(yard.api::<Host>().get("h").await.unwrap().spec.claim.is_some());
    yard.bench.set("h", |answers| answers.keeps_resetting = false);
    let host = released(&yard, "h").await;
    assert_eq!(host.spec.quarantine, None);
    assert!(yard.bench.of("h").resets.iter().all(|reset| *reset == claim));
    eventually(DEADLINE, "the HostMachine to go", async || {
        ensure!(yard.api::<HostMachine>().get_opt("m").await?.is_none());
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_hangs_keeps_no_other_machine_waiting() {
    let yard = Yard::start().await;
    for number in 0..3 {
        let (host, machine) = (format!("h{number}"), format!("m{number}"));
        yard.host(&host, "west", "10.0.0.1").await;
        yard.machine(&machine, &host).await;
        yard.says::<HostMachine>(&machine, "Ready", "Ready").await;
    }
    yard.bench.set("h0", |answers| answers.hangs = true);
    for number in 0..3 {
        delete(&yard, &format!("m{number}")).await;
    }
    released(&yard, "h1").await;
    released(&yard, "h2").await;
    // A call that does not return is given up, so that the next one can succeed.
    let message = yard.says::<HostMachine>("m0", "Deleting", "HostUnreachable").await;
    assert!(message.contains("did not answer within"), "{message}");
    assert!(yard.api::<Host>().get("h0").await.unwrap().spec.claim.is_some());
    yard.bench.set("h0", |answers| answers.hangs = false);
    yard.ask_again("h0").await;
    released(&yard, "h0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_on_which_something_is_left_is_released_into_quarantine() {
    let yard = Yard::start().await;
    yard.host("h", "west", "10.0.0.1").await;
    yard.machine("m", "h").await;
    yard.says::<HostMachine>("m", "Ready", "Ready").await;
    yard.bench.set("h", |answers| answers.left = vec!["/etc/rancher".to_owned()]);
    delete(&yard, "m").await;
    let quarantine = released(&yard, "h").await.spec.quarantine.unwrap();
    assert!(quarantine.message.unwrap().contains("/etc/rancher"));
    yard.machine("other", "h").await;
    let message = yard.says::<HostMachine>("other", "HostClaimed", "NoHostAvailable").await;
    assert!(message.contains("quarantined"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_never_resets_a_host_that_carries_another_claim() {
    let yard = Yard::start().await;
    yard.host("h", "west", "10.0.0.1").await;
    yard.machine("m", "h").await;
    yard.says::<HostMachine>("m", "Ready", "Ready").await;
    // A person let go of the host, and another machine has it since.
    yard.change::<Host>("h", serde_json::json!({"spec": {"claim": null}})).await;
    let other = serde_json::json!({"id": "other", "machineName": "x", "clusterName": "y"});
    yard.change::<Host>("h", serde_json::json!({"spec": {"claim": other}})).await;
    delete(&yard, "m").await;
    eventually(DEADLINE, "the HostMachine to go", async || {
        ensure!(yard.api::<HostMachine>().get_opt("m").await?.is_none());
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(yard.bench.of("h").resets, Vec::<String>::new());
    assert_eq!(yard.api::<Host>().get("h").await.unwrap().spec.claim.unwrap().id, "other");
}
