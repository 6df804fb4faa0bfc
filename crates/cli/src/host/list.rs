//! `capstan host list`.

use anyhow::{Context, Result};
use capstan_api::conditions::types::READY;
use capstan_api::conditions::{get, is_true};
use capstan_api::infrastructure::Host;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};
use std::io::Write as _;

use super::args::{ListArgs, ListOutput};
use crate::args::Output;
use crate::client::ASKING;
use crate::describe::age;
use crate::progress::waiting;
use crate::table::table;

pub(super) async fn run(args: &ListArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let namespace = &place.namespace;
    let params = match &args.selector {
        Some(selector) => ListParams::default().labels(selector),
        None => ListParams::default(),
    };
    let hosts = waiting(ASKING, async { place.hosts().list(&params).await }).await;
    let hosts = hosts.with_context(|| format!("cannot list Hosts in {namespace}"))?.items;
    let text = match args.output {
        Some(ListOutput::Json) => Output::Json.print(&list(&hosts))?,
        Some(ListOutput::Yaml) => Output::Yaml.print(&list(&hosts))?,
        Some(ListOutput::Wide) => wide(&hosts, Timestamp::now()),
        None if hosts.is_empty() => {
            eprintln!("no hosts in namespace {namespace}: add some with `capstan host add`, or a HostPool");
            return Ok(());
        }
        None => narrow(&hosts, Timestamp::now()),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

fn list(hosts: &[Host]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": hosts})
}

fn narrow(hosts: &[Host], now: Timestamp) -> String {
    let rows: Vec<[String; 6]> = hosts
        .iter()
        .map(|host| {
            [host.name_any(), state(host), address(host), claim(host), reason(host), since(host, now)]
        })
        .collect();
    table(&["NAME", "STATE", "ADDRESS", "CLUSTER/MACHINE", "REASON", "AGE"], &rows)
}

fn wide(hosts: &[Host], now: Timestamp) -> String {
    let rows: Vec<[String; 12]> = hosts
        .iter()
        .map(|host| {
            let facts = host.status.as_ref().and_then(|status| status.facts.clone()).unwrap_or_default();
            let memory = facts.memory_bytes.map(|bytes| format!("{}Mi", bytes >> 20)).unwrap_or_default();
            [
                host.name_any(),
                state(host),
                address(host),
                claim(host),
                reason(host),
                since(host, now),
                host.spec.failure_domain.clone().unwrap_or_default(),
                facts.architecture.unwrap_or_default(),
                facts.cpus.map(|cpus| cpus.to_string()).unwrap_or_default(),
                memory,
                facts.os_image.unwrap_or_default(),
                facts.kernel_version.unwrap_or_default(),
            ]
        })
        .collect();
    let titles = [
        "NAME",
        "STATE",
        "ADDRESS",
        "CLUSTER/MACHINE",
        "REASON",
        "AGE",
        "FAILURE DOMAIN",
        "ARCH",
        "CPUS",
        "MEMORY",
        "OS",
        "KERNEL",
    ];
    table(&titles, &rows)
}

fn state(host: &Host) -> String {
    host.status.as_ref().and_then(|status| status.state).map(|state| format!("{state:?}")).unwrap_or_default()
}

fn address(host: &Host) -> String {
    match &host.spec.ssh {
        Some(ssh) if ssh.port == 22 => ssh.address.clone(),
        Some(ssh) => format!("{}:{}", ssh.address, ssh.port),
        None if host.spec.registration.is_some() => "(dials out)".to_owned(),
        None => "(simulated)".to_owned(),
    }
}

fn claim(host: &Host) -> String {
    let claim = host.spec.claim.as_ref();
    claim.map(|claim| format!("{}/{}", claim.cluster_name, claim.machine_name)).unwrap_or_default()
}

/// Why it is not as it should be.
fn reason(host: &Host) -> String {
    match (&host.spec.quarantine, get(host, READY)) {
        (Some(quarantine), _) => quarantine.reason.clone(),
        (None, Some(ready)) if !is_true(host, READY) => ready.reason.clone(),
        _ => String::new(),
    }
}

fn since(host: &Host, now: Timestamp) -> String {
    host.creation_timestamp().map(|created| age(created.0, now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_line() {
        let host: Host = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
            "metadata": {"name": "rack-1", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {
                "ssh": {"address": "10.0.0.1", "port": 2222, "user": "root", "credentialsRef": {"name": "c"}},
                "failureDomain": "a",
                "claim": {"id": "i", "machineName": "m", "clusterName": "shop"},
            },
            "status": {
                "state": "Claimed", "facts": {"architecture": "amd64", "cpus": 4, "memoryBytes": 2147483648_i64},
                "conditions": [{"type": "Ready", "status": "False", "reason": "HostKeyMismatch", "message": "",
                    "lastTransitionTime": "1970-01-01T00:00:00Z"}],
            },
        }))
        .unwrap();
        let now = Timestamp::from_second(60).unwrap();
        let text = narrow(std::slice::from_ref(&host), now);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["rack-1", "Claimed", "10.0.0.1:2222", "shop/m", "HostKeyMismatch", "60s"]);
        assert!(wide(&[host], now).contains("amd64   4      2048Mi"));
    }
}
