//! What the cases share: a cluster of one server on a certain host, and how its machine and host are looked at.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use capstan_api::core::Machine;
use capstan_api::infrastructure::Host;
use capstan_testkit::{TestMachine, eventually};
use capstan_tests::{K3S, Yard, namespaced};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

/// Generous: the machine that all of this runs on may have other things to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// One case after the other: each has machines of its own, and they want all processors.
pub(crate) async fn exclusive() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::const_new(());
    EXCLUSIVE.lock().await
}

/// Puts a machine into the inventory, for the cluster of the same name as `case`.
pub(crate) fn add(yard: &Yard, name: &str, case: &str, how: &[&str]) -> Result<String> {
    let address = yard.machine(name)?.address().to_string();
    let label = format!("case={case}");
    let words = ["host", "add", name, "--address", &address, "--label", &label];
    yard.capstan(&[&words[..], how].concat())
}

/// The same, with all that is right: the key that lets in, and the key the machine shows.
pub(crate) fn add_rightly(yard: &Yard, name: &str, case: &str) -> Result<String> {
    let key = yard.machines().private_key();
    let key = key.to_str().context("a path that is text")?;
    add(yard, name, case, &["--identity-file", key, "--host-key", yard.machine(name)?.host_key()])
}

/// Applies a cluster with one server, on the host whose label `case` is the cluster's name.
pub(crate) async fn order(yard: &Yard, case: &str, address: Ipv4Addr, format: Option<&str>) -> Result<()> {
    let size = ["--control-plane-machine-count", "1", "--worker-machine-count", "0"];
    let words = [&["generate", "cluster", case, "--kubernetes-version", K3S[0]], &size[..]].concat();
    for text in capstan_tests::capstan(&words)?.split("\n---\n") {
        let mut object: Value = serde_saphyr::from_str(text).context("not YAML")?;
        match object["kind"].as_str() {
            Some("CapstanControlPlane") => {
                object["spec"]["config"]["settings"] = json!({
                    "disable": ["coredns", "servicelb", "traefik", "local-storage", "metrics-server"],
                    "flannel-backend": "host-gw",
                });
                if let Some(format) = format {
                    object["spec"]["config"]["format"] = json!(format);
                }
            }
            Some("HostCluster") => {
                object["spec"]["controlPlaneEndpoint"] = json!({"host": address.to_string(), "port": 6443});
            }
            Some("HostMachineTemplate") => {
                object["spec"]["template"]["spec"]["hostSelector"] = json!({"matchLabels": {"case": case}});
            }
            _ => {}
        }
        yard.cluster(case).apply(&object).await?;
    }
    Ok(())
}

/// The only Machine of a cluster.
pub(crate) async fn machine(yard: &Yard, case: &str) -> Result<Machine> {
    eventually(PATIENCE, "the Machine", async || {
        let mut machines = yard.cluster(case).machines().await?;
        ensure!(machines.len() == 1, "{} machines", machines.len());
        machines.pop().context("no Machine")
    })
    .await
}

/// The HostMachine of the only Machine of a cluster.
pub(crate) async fn host_machine(yard: &Yard, case: &str) -> Result<DynamicObject> {
    let machine = machine(yard, case).await?;
    let api = "infrastructure.cluster.x-k8s.io/v1alpha1";
    let name = &machine.spec.infrastructure_ref.name;
    Ok(namespaced(&yard.client(), "default", api, "HostMachine").get(name).await?)
}

/// Waits until a condition of the cluster's HostMachine has this reason, and gives its message.
pub(crate) async fn until_reported(
    yard: &Yard,
    case: &str,
    type_: &str,
    reason: &str,
    words: &[&str],
) -> Result<String> {
    eventually(PATIENCE, &format!("{type_} of {case} to say {reason}"), async || {
        let found = host_machine(yard, case).await?;
        let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == type_);
        let found = found.with_context(|| format!("no {type_}"))?;
        let message = found["message"].as_str().unwrap_or_default();
        ensure!(found["reason"] == reason && has(message, words), "{found}");
        Ok(message.to_owned())
    })
    .await
}

/// Waits until a Host says of itself that it is not ready, for this reason, and gives the message.
pub(crate) async fn until_unready(yard: &Yard, name: &str, reason: &str) -> Result<String> {
    eventually(PATIENCE, &format!("Host {name} to say {reason}"), async || {
        let host = host(yard, name).await?;
        let status = host.status.unwrap_or_default();
        let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
        let ready = ready.context("no condition")?;
        ensure!(ready.reason == reason, "{}: {}", ready.reason, ready.message);
        Ok(ready.message)
    })
    .await
}

pub(crate) async fn host(yard: &Yard, name: &str) -> Result<Host> {
    Ok(yard.api::<Host>().get(name).await?)
}

/// Waits until the host is claimed.
pub(crate) async fn until_claimed(yard: &Yard, name: &str) -> Result<()> {
    eventually(PATIENCE, &format!("{name} to be claimed"), async || {
        ensure!(host(yard, name).await?.spec.claim.is_some(), "not yet");
        Ok(())
    })
    .await
}

/// What `capstan why` says of the cluster's machine: for people, and for programs.
pub(crate) async fn why(yard: &Yard, case: &str) -> Result<(String, Value)> {
    let name = format!("machine/{}", machine(yard, case).await?.name_any());
    let text = yard.capstan(&["why", &name])?;
    let json = yard.capstan(&["why", &name, "-o", "json"])?;
    Ok((text, serde_json::from_str(&json)?))
}

/// What `capstan host check` finds wrong: its exit code is 3, and all problems are given.
pub(crate) fn check_fails(yard: &Yard, name: &str) -> Result<String> {
    let output = yard.run(&["host", "check", name, "-o", "json"])?;
    let (stdout, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.code() == Some(3), "{:?}: {stdout}{error}", output.status);
    let reports: Value = serde_json::from_str(&stdout)?;
    ensure!(reports[0]["host"] == name && reports[0]["usable"] == false, "{reports}");
    let findings = reports[0]["findings"].as_array().context("findings")?;
    let problems = findings.iter().filter(|finding| finding["level"] == "problem");
    Ok(problems.map(|finding| format!("{finding}\n")).collect())
}

/// All that Capstan could have changed on a machine.
pub(crate) async fn listing(machine: &TestMachine) -> Result<String> {
    let look = "find /opt /etc /root /var/lib/capstan /var/lib/capstan-claims /var/lib/cloud /var/lib/rancher -xdev \
                -printf '%p %y %m %u %s %C@\\n' 2>/dev/null | sort";
    machine.run(&format!("{look}; true")).await
}

pub(crate) fn has(text: &str, words: &[&str]) -> bool {
    words.iter().all(|word| text.contains(word))
}

/// Fails with the whole text if a word is not in it.
pub(crate) fn expect(text: &str, words: &[&str]) -> Result<()> {
    match words.iter().find(|word| !text.contains(**word)) {
        Some(word) => bail!("{word:?} is not in:\n{text}"),
        None => Ok(()),
    }
}
