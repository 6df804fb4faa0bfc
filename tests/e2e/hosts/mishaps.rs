//! What goes wrong on the way: a disk that fills up in the middle of a plan, and a machine that loses its power in the
//! middle of its bootstrap data. Both are said, and both go on once the cause is gone. And a host that is given up.

use anyhow::{Context as _, Result, ensure};
use capstan_api::infrastructure::Host;
use capstan_testkit::{TestMachine, eventually};
use capstan_tests::{K3S, Yard, is_clean};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::stage::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_a_power_cut_and_a_lost_host_are_reported_and_survived() {
    let _turn = exclusive().await;
    let yard = Yard::embedded(&["rack"]).await.unwrap();
    a_disk_fills_up(&yard, yard.machine("rack").unwrap()).await.unwrap();
    power_is_cut(&yard, yard.machine("rack").unwrap()).await.unwrap();
    a_host_is_given_up(&yard, yard.machine("rack").unwrap()).await.unwrap();
}

async fn a_disk_fills_up(yard: &Yard, rack: &TestMachine) -> Result<()> {
    // Enough, until something else takes it: room for the agent, none for k3s.
    rack.run("mount -t tmpfs -o size=300m capstan-tight /opt").await?;
    add_rightly(yard, "rack", "tight")?;
    yard.until_available(&["rack"]).await?;
    order(yard, "tight", rack.address(), None).await?;
    until_claimed(yard, "rack").await?;
    rack.run("fallocate -l 240M /opt/somebody-elses && ! ls /opt/capstan/k3s 2>/dev/null").await?;

    let words = ["/opt/capstan/k3s/", "No space left on device", "make room on that disk"];
    let shown = eventually(PATIENCE, "the plan to say that the disk is full", async || {
        let (text, json) = why(yard, "tight").await?;
        expect(&text, &words)?;
        Ok((text, json))
    });
    let (text, json) = shown.await?;
    expect(&text, &["step ", " of ", "Who must act: "])?;
    expect(&json["waitingFor"]["message"].to_string(), &words)?;
    // On the machine it is said as well.
    let explained = rack.run("/opt/capstan/capstan-agent explain").await?;
    expect(&explained, &["No space left on device"])?;
    // A claimed host that is full says so too.
    expect(&check_fails(yard, "rack")?, &["MiB are free in /opt", "make room"])?;

    rack.run("rm /opt/somebody-elses").await?;
    yard.cluster("tight").until_ready(1, K3S[0]).await?;
    yard.cluster("tight").delete().await?;
    yard.until_available(&["rack"]).await?;
    rack.run("umount /opt").await?;
    yard.capstan(&["host", "remove", "rack"])?;
    Ok(())
}

async fn power_is_cut(yard: &Yard, rack: &TestMachine) -> Result<()> {
    // Whoever fetches the agent for the first time waits for ever.
    let hang = "#!/bin/sh\n[ -e /var/tmp/hung ] || { : >/var/tmp/hung; sync; sleep 100000; }\nexec /usr/bin/curl \"$@\"\n";
    rack.run(&format!("printf '%s' '{hang}' >/usr/local/bin/curl && chmod 755 /usr/local/bin/curl && sync"))
        .await?;
    add_rightly(yard, "rack", "cut")?;
    yard.until_available(&["rack"]).await?;
    order(yard, "cut", rack.address(), None).await?;
    eventually(PATIENCE, "the bootstrap data to be in the middle", async || {
        rack.run("test -e /var/tmp/hung").await?;
        Ok(())
    })
    .await?;
    until_reported(yard, "cut", "BootstrapExecuted", "Bootstrapping", &["Host rack"]).await?;
    rack.pull_the_plug().await?;
    let words = ["Host rack", "spec.ssh.address", "See that the host is up"];
    until_reported(yard, "cut", "BootstrapExecuted", "HostUnreachable", &words).await?;
    let (text, _) = why(yard, "cut").await?;
    expect(&text, &words)?;
    expect(
        &text,
        &["▶ bootstrap data carried out", "Who must act: you: check power and network of the host"],
    )?;
    let claim = host(yard, "rack").await?.spec.claim;
    ensure!(claim.is_some(), "the claim is lost");

    rack.start().await?;
    yard.cluster("cut").until_ready(1, K3S[0]).await?;
    ensure!(host(yard, "rack").await?.spec.claim == claim, "another claim");
    yard.cluster("cut").delete().await?;
    yard.until_available(&["rack"]).await?;
    yard.capstan(&["host", "remove", "rack"])?;
    rack.run("rm /usr/local/bin/curl /var/tmp/hung").await?;
    Ok(())
}

async fn a_host_is_given_up(yard: &Yard, rack: &TestMachine) -> Result<()> {
    add_rightly(yard, "rack", "lost")?;
    yard.until_available(&["rack"]).await?;
    order(yard, "lost", rack.address(), None).await?;
    yard.cluster("lost").until_ready(1, K3S[0]).await?;
    let refused = yard.run(&["host", "abandon", "rack"])?;
    ensure!(refused.status.code() == Some(4), "{refused:?}");
    expect(&String::from_utf8_lossy(&refused.stderr), &["Host rack answers", "delete the Machine"])?;

    rack.pull_the_plug().await?;
    let given_up = eventually(PATIENCE, "the host to be given up", async || {
        ensure!(machine(yard, "lost").await?.metadata.deletion_timestamp.is_some(), "not deleted yet");
        yard.capstan(&["host", "abandon", "rack"])
    });
    let cluster = yard.cluster("lost");
    let (gone, printed) = tokio::join!(cluster.delete(), given_up);
    expect(&printed?, &["host/rack abandoned"])?;
    gone?;
    let quarantine = host(yard, "rack").await?.spec.quarantine.context("not quarantined")?;
    ensure!(quarantine.reason == "Abandoned", "{quarantine:?}");

    // It comes back after all, and is put right as the quarantine says.
    rack.start().await?;
    let message = quarantine.message.unwrap_or_default();
    rack.run(message.split('`').nth(1).with_context(|| message.clone())?).await?;
    is_clean(rack).await?;
    let free = Patch::Merge(json!({"spec": {"quarantine": null}}));
    yard.api::<Host>().patch("rack", &PatchParams::default(), &free).await?;
    yard.until_available(&["rack"]).await?;
    yard.capstan(&["host", "check", "rack"]).map(drop)
}
