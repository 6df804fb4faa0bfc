//! Hosts that cannot work: said with the field and the remedy, in every place where somebody would look, and neither
//! claimed nor changed.

use anyhow::{Result, ensure};
use capstan_api::infrastructure::{Host, HostState};
use capstan_testkit::eventually;
use capstan_tests::Yard;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::stage::*;

/// Each host, its reason, and what must be said of it: the field, what is so, the remedy.
const CASES: [(&str, &str, &[&str]); 4] = [
    (
        "key",
        "HostKeyMismatch",
        &["spec.ssh.hostKeys: ", "SHA256:", "No credential was sent", "ssh-keygen -lf"],
    ),
    (
        "door",
        "CredentialsRefused",
        &["spec.ssh.credentialsRef: ", "refuses the public key of user root", "door-ssh"],
    ),
    ("down", "Unreachable", &["spec.ssh.address: ", "cannot be reached", "See that the host is up"]),
    ("full", "NotUsable", &["disk", "MiB are free in /opt", "make room: at least 256 MiB"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_cannot_work_are_neither_claimed_nor_changed() {
    let _turn = exclusive().await;
    run().await.unwrap();
}

async fn run() -> Result<()> {
    let names: Vec<&str> = CASES.iter().map(|(name, ..)| *name).collect();
    let yard = Yard::embedded(&names).await?;
    let right_key = yard.machines().private_key();
    let right_key = right_key.to_str().unwrap_or_default();

    // Only these two are right, and stop being so.
    add_rightly(&yard, "down", "down")?;
    yard.until_available(&["down"]).await?;
    yard.machine("down")?.pull_the_plug().await?;
    yard.machine("full")?.run("mount -t tmpfs -o size=64m capstan-full /opt").await?;
    add_rightly(&yard, "full", "full")?;

    let of_another = yard.machine("door")?.host_key();
    add(&yard, "key", "key", &["--identity-file", right_key, "--host-key", of_another])?;
    let wrong = yard.folder().join("wrong-key");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&wrong)
        .status()?;
    ensure!(made.success(), "no key");
    let wrong = wrong.to_str().unwrap_or_default();
    add(&yard, "door", "door", &["--identity-file", wrong, "--host-key", yard.machine("door")?.host_key()])?;

    let mut before = Vec::new();
    for name in ["key", "door", "full"] {
        before.push((name, listing(yard.machine(name)?).await?));
    }
    for (name, reason, words) in CASES {
        // The plug was pulled behind everybody's back: the claim is what finds out.
        if name != "down" {
            expect(&until_unready(&yard, name, reason).await?, words)?;
        }
        order(&yard, name, yard.machine(name)?.address(), None).await?;
        let message = until_reported(&yard, name, "HostClaimed", "NoHostAvailable", words).await?;
        expect(&message, &[&format!("Host {name}: ")])?;
        expect(&until_unready(&yard, name, reason).await?, words)?;
        expect(&check_fails(&yard, name)?, words)?;
        let (text, json) = why(&yard, name).await?;
        expect(&text, words)?;
        expect(&text, &["▶ host claimed", "Who must act: you"])?;
        expect(&json["waitingFor"]["message"].to_string(), words)?;
        ensure!(json["waitingFor"]["reason"] == "NoHostAvailable", "{json}");
    }
    an_empty_pool(&yard).await?;

    for (name, ..) in CASES {
        ensure!(host(&yard, name).await?.spec.claim.is_none(), "{name} is claimed");
        // The host that can be put right while a machine waits for it.
        if name != "door" {
            yard.cluster(name).delete().await?;
        }
    }
    for (name, before) in before {
        let after = listing(yard.machine(name)?).await?;
        ensure!(before == after, "{name} was changed:\n{before}\n->\n{after}");
    }
    put_right(&yard, right_key).await
}

async fn an_empty_pool(yard: &Yard) -> Result<()> {
    let pool = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool",
        "metadata": {"name": "empty"},
        "spec": {"replicas": 0, "simulated": {}, "metadata": {"labels": {"case": "empty"}}},
    });
    yard.cluster("empty").apply(&pool).await?;
    order(yard, "empty", yard.machines().gateway(), None).await?;
    let words = ["none of 4 matches spec.hostSelector", "capstan host add", "spec.replicas of a HostPool"];
    until_reported(yard, "empty", "HostClaimed", "NoHostAvailable", &words).await?;
    expect(&why(yard, "empty").await?.0, &words)?;
    yard.cluster("empty").delete().await
}

/// What the messages say helps, and nothing else has to be done.
async fn put_right(yard: &Yard, right_key: &str) -> Result<()> {
    let hosts = yard.api::<Host>();
    let keys = json!({"spec": {"ssh": {"hostKeys": [yard.machine("key")?.host_key()]}}});
    hosts.patch("key", &PatchParams::default(), &Patch::Merge(keys)).await?;
    yard.machine("down")?.start().await?;
    yard.machine("full")?.run("umount /opt").await?;
    let secret = json!({"stringData": {"ssh-privatekey": std::fs::read_to_string(right_key)?}});
    yard.api::<Secret>().patch("door-ssh", &PatchParams::default(), &Patch::Merge(secret)).await?;
    until_claimed(yard, "door").await?;
    // In the middle of whatever it does by now.
    yard.cluster("door").delete().await?;
    eventually(PATIENCE, "all hosts to be available", async || {
        for (name, ..) in CASES {
            let state = host(yard, name).await?.status.unwrap_or_default().state;
            ensure!(state == Some(HostState::Available), "{name} is {state:?}");
        }
        Ok(())
    })
    .await?;
    yard.until_available(&["key", "door", "down", "full"]).await
}
