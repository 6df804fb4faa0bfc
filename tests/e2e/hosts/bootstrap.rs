//! The same cluster of one server, by every way that bootstrap data is carried out and by every way to get in; each to a
//! Node that is ready, and away again without a trace. Nothing that was planted shows anywhere.

use anyhow::{Context, Result, ensure};
use capstan_api::infrastructure::HostPool;
use capstan_testkit::{TestMachine, eventually};
use capstan_tests::{K3S, Yard};
use kube::api::DeleteParams;
use serde_json::json;

use crate::secrets::{Planted, watch};
use crate::stage::*;

const SUDO_PASSWORD: &str = "planted-Sudo-3f1c07c6e1";
const LOGIN_PASSWORD: &str = "planted-Login-94b20a77d5";

#[tokio::test(flavor = "multi_thread")]
async fn every_way_leads_to_a_ready_node_and_back() {
    let _turn = exclusive().await;
    let yard = Yard::embedded(&["box"]).await.unwrap();
    let machine = yard.machine("box").unwrap();
    let mut planted = Planted::new(&[("the sudo password", SUDO_PASSWORD), ("the password", LOGIN_PASSWORD)]);
    let key = std::fs::read_to_string(yard.machines().private_key()).unwrap();
    planted.add_key("the SSH key", &key).unwrap();
    watch(machine).await.unwrap();
    by_its_own_cloud_init(&yard, machine, &mut planted).await.unwrap();
    over_ssh_with_sudo(&yard, machine, &mut planted, &key).await.unwrap();
    by_script_from_a_static_pool(&yard, machine, &mut planted).await.unwrap();
}

async fn by_its_own_cloud_init(yard: &Yard, machine: &TestMachine, planted: &mut Planted) -> Result<()> {
    add_rightly(yard, "box", "seeded")?;
    stands_and_goes(yard, machine, planted, "seeded", "cloud-config", "cloud-init").await?;
    yard.capstan(&["host", "remove", "box"])?;
    Ok(())
}

async fn over_ssh_with_sudo(
    yard: &Yard,
    machine: &TestMachine,
    planted: &mut Planted,
    key: &str,
) -> Result<()> {
    set_password(yard, machine, "debian", SUDO_PASSWORD).await?;
    machine
        .run(
            "mv /usr/bin/cloud-init /root/ && rm -f /etc/sudoers.d/* && \
             printf 'debian ALL=(ALL) ALL\\n' >/etc/sudoers.d/debian",
        )
        .await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "box-login"},
        "stringData": {"ssh-privatekey": key, "sudo-password": SUDO_PASSWORD},
    });
    yard.cluster("plain").apply(&secret).await?;
    let how = ["--user", "debian", "--sudo", "--credentials", "box-login", "--host-key", machine.host_key()];
    add(yard, "box", "plain", &how)?;
    stands_and_goes(yard, machine, planted, "plain", "cloud-config", "runcmd").await?;
    yard.capstan(&["host", "remove", "box"])?;
    machine.run("mv /root/cloud-init /usr/bin/").await?;
    Ok(())
}

async fn by_script_from_a_static_pool(
    yard: &Yard,
    machine: &TestMachine,
    planted: &mut Planted,
) -> Result<()> {
    set_password(yard, machine, "root", LOGIN_PASSWORD).await?;
    machine
        .run(
            "printf 'PermitRootLogin yes\\nPasswordAuthentication yes\\n' >/etc/ssh/sshd_config.d/0.conf && \
             systemctl restart ssh",
        )
        .await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rack-login"},
        "stringData": {"password": LOGIN_PASSWORD},
    });
    let pool = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool", "metadata": {"name": "rack"},
        "spec": {
            "metadata": {"labels": {"case": "scripted"}},
            "static": {"hosts": [{"name": "box", "ssh": {
                "address": machine.address().to_string(), "credentialsRef": {"name": "rack-login"},
                "hostKeys": [machine.host_key()],
            }}]},
        },
    });
    for object in [secret, pool] {
        yard.cluster("scripted").apply(&object).await?;
    }
    eventually(PATIENCE, "the pool's host", async || host(yard, "box").await).await?;
    stands_and_goes(yard, machine, planted, "scripted", "script", "script").await?;
    stays(yard, "box", &["HostPool rack", "spec.static.hosts"])?;
    yard.api::<HostPool>().delete("rack", &DeleteParams::default()).await?;
    eventually(PATIENCE, "the pool's host to be gone", async || {
        ensure!(host(yard, "box").await.is_err(), "it is there");
        Ok(())
    })
    .await
}

/// `step` is how the data was carried out, in the words of the claim's folder on the machine.
async fn stands_and_goes(
    yard: &Yard,
    machine: &TestMachine,
    planted: &mut Planted,
    case: &str,
    format: &str,
    step: &str,
) -> Result<()> {
    yard.until_available(&["box"]).await?;
    order(yard, case, machine.address(), Some(format)).await?;
    planted.add_token(yard, case).await?;
    yard.cluster(case).until_ready(1, K3S[0]).await?;
    let steps = machine.run("cat /var/lib/capstan-claims/*/names").await?;
    let last = steps.lines().rfind(|line| line.starts_with('0')).context("no steps")?;
    ensure!(last.split(' ').nth(1) == Some(step), "not carried out by {step}:\n{steps}");
    stays(yard, "box", &["HostMachine ", &format!("of Cluster {case} has it"), "Delete its Machine"])?;
    planted.add_of_cluster(yard, case).await?;
    planted.are_hidden(yard, machine, case).await?;
    yard.cluster(case).delete().await?;
    yard.until_available(&["box"]).await
}

/// Through a file: arguments are what is being watched.
async fn set_password(yard: &Yard, machine: &TestMachine, user: &str, password: &str) -> Result<()> {
    let line = yard.folder().join("password");
    std::fs::write(&line, format!("{user}:{password}\n"))?;
    machine.put(&line, "/root/password", 0o600).await?;
    machine.run("chpasswd </root/password && rm /root/password").await?;
    Ok(())
}

/// The host is needed: taking it out of the inventory is refused, with the reason and the remedy.
fn stays(yard: &Yard, name: &str, words: &[&str]) -> Result<()> {
    let output = yard.run(&["host", "remove", name])?;
    ensure!(output.status.code() == Some(4), "{:?}", output.status);
    expect(&String::from_utf8_lossy(&output.stderr), words)
}
