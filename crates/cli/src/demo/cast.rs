//! The hosts, versions and machine counts of a demo.

use anyhow::{Context, Result, bail, ensure};
use capstan_artifacts::Software;
use capstan_nspawn::Set;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const POOL: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";

pub(super) struct Cast {
    /// Description of the hosts.
    pub(super) hosts_are: &'static str,
    /// Number of hosts.
    pub(super) hosts: usize,
    /// Objects of the HostPool.
    pub(super) pool: Vec<Value>,
    pub(super) servers: i32,
    pub(super) workers: i32,
    /// Versions of Kubernetes, before and after the in-place upgrade.
    pub(super) versions: [String; 2],
    /// Additional k3s settings for real machines. The only control plane machine is then on the first host.
    pub(super) settings: Option<Value>,
    /// Timeout of each phase.
    pub(super) deadline: Duration,
}

impl Cast {
    /// A demo on simulated hosts, which are fast and work on every computer.
    pub(super) fn simulated() -> Self {
        let pool = json!({
            "apiVersion": POOL, "kind": "HostPool", "metadata": {"name": "simulated"},
            "spec": {"replicas": 7, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 10}},
        });
        Self {
            hosts_are: "simulated hosts",
            hosts: 7,
            pool: vec![pool],
            servers: 3,
            workers: 3,
            versions: ["v1.36.0+k3s1", "v1.36.1+k3s1"].map(str::to_owned),
            settings: None,
            deadline: Duration::from_secs(120),
        }
    }

    /// A demo on real machines on this computer, with a real k3s.
    pub(super) fn real(set: &Set, base: &Path, software: &Software, folder: &Path) -> Result<Self> {
        let versions = newest_two(software)?;
        let (private, public) = key_pair(folder)?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ssh"},
            "stringData": {"ssh-privatekey": private, "ssh-publickey": public},
        });
        let base = base.to_str().context("--root-filesystem must be text")?;
        let pool = json!({
            "apiVersion": POOL, "kind": "HostPool", "metadata": {"name": "machines"},
            "spec": {"replicas": 2, "nspawn": {
                "rootFilesystem": base, "bridge": set.network().bridge(), "credentialsRef": {"name": "ssh"},
            }},
        });
        let settings = json!({
            // Nothing that would have to be fetched, and pods that reach each other without a tunnel: neither a network
            // beyond the machines' own nor a kernel with VXLAN is needed.
            "disable": ["coredns", "servicelb", "traefik", "local-storage", "metrics-server"],
            "flannel-backend": "host-gw",
        });
        Ok(Self {
            hosts_are: "systemd-nspawn machines, each with a systemd and an SSH server of its own",
            hosts: 2,
            pool: vec![secret, pool],
            servers: 1,
            workers: 1,
            versions,
            settings: Some(settings),
            deadline: Duration::from_secs(600),
        })
    }
}

/// The last two versions of k3s in the folder of software, the older one first.
fn newest_two(software: &Software) -> Result<[String; 2]> {
    let catalog = software.catalog();
    let versions: BTreeSet<(Vec<u64>, String)> =
        catalog.versions("k3s").map(|version| (numbers(version), version.to_owned())).collect();
    let mut newest = versions.into_iter().rev().map(|(_, version)| version);
    match (newest.next(), newest.next()) {
        (Some(newer), Some(older)) => Ok([older, newer]),
        _ => bail!(
            "two versions of k3s are needed, to change from one to the other: put them into --artifacts-dir with \
             `capstan artifacts add`"
        ),
    }
}

/// The numbers in a version: `v1.10.0+k3s1` is later than `v1.9.0+k3s2`.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// A key pair for the machines' SSH servers, which goes with the demo.
fn key_pair(folder: &Path) -> Result<(String, String)> {
    let path = folder.join("ssh-key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "capstan-demo", "-f"])
        .arg(&path)
        .output()
        .context("cannot run ssh-keygen: install openssh-client")?;
    ensure!(made.status.success(), "ssh-keygen failed: {}", String::from_utf8_lossy(&made.stderr).trim());
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok((read(&path)?, read(&path.with_extension("pub"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_versions_have_larger_numbers() {
        assert!(numbers("v1.10.0+k3s1") > numbers("v1.9.3+k3s2"));
        assert!(numbers("v1.35.1+k3s2") > numbers("v1.35.1+k3s1"));
    }
}
