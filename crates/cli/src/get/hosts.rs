//! The columns of `capstan get hosts`. Pure.

use jiff::Timestamp;
use kube::core::ApiResource;
use serde_json::Value;

use super::KindTable;
use super::cells::{condition, created, name, status, text};

pub(super) fn shown(resource: ApiResource) -> KindTable {
    KindTable {
        resource,
        titles: &[
            "NAME",
            "STATE",
            "POOL",
            "CLUSTER/MACHINE",
            "ADDRESS",
            "AGE",
            "READY",
            "FAILURE DOMAIN",
            "ARCH",
            "CPUS",
            "MEMORY",
            "OS",
            "KERNEL",
        ],
        usual: 6,
        row,
        waits: waits_for,
        key: |host| vec![text(&host["metadata"]["namespace"]), name(host).to_owned()],
    }
}

fn row(host: &Value, now: Timestamp) -> Vec<String> {
    let (spec, facts) = (&host["spec"], &host["status"]["facts"]);
    vec![
        name(host).to_owned(),
        text(&host["status"]["state"]),
        pool(host),
        claim(&spec["claim"]),
        address(spec),
        created(host, now),
        status(host, "Ready"),
        text(&spec["failureDomain"]),
        text(&facts["architecture"]),
        facts["cpus"].as_i64().map(|cpus| cpus.to_string()).unwrap_or_default(),
        facts["memoryBytes"].as_i64().map(|bytes| format!("{}Mi", bytes >> 20)).unwrap_or_default(),
        text(&facts["osImage"]),
        text(&facts["kernelVersion"]),
    ]
}

/// The HostPool that the host belongs to.
fn pool(host: &Value) -> String {
    let owners = host["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pool = owners.iter().find(|owner| owner["kind"] == "HostPool");
    pool.map(|pool| text(&pool["name"])).unwrap_or_default()
}

fn claim(claim: &Value) -> String {
    match (claim["clusterName"].as_str(), claim["machineName"].as_str()) {
        (Some(cluster), Some(machine)) => format!("{cluster}/{machine}"),
        _ => String::new(),
    }
}

fn address(spec: &Value) -> String {
    match (spec["ssh"]["address"].as_str(), spec["ssh"]["port"].as_i64()) {
        (Some(address), Some(port)) if port != 22 => format!("{address}:{port}"),
        (Some(address), _) => address.to_owned(),
        (None, _) if spec["registration"].is_object() => "(dials out)".to_owned(),
        (None, _) => "(simulated)".to_owned(),
    }
}

/// Why the host cannot be used, or cannot be used by another machine yet.
fn waits_for(host: &Value) -> String {
    let reason = |reason: &Value, message: &Value| match message.as_str().and_then(|it| it.lines().next()) {
        Some(message) => format!("{}: {message}", text(reason)),
        None => text(reason),
    };
    let quarantine = &host["spec"]["quarantine"];
    if quarantine.is_object() {
        return reason(&quarantine["reason"], &quarantine["message"]);
    }
    match condition(host, "Ready") {
        Some(ready) if ready["status"] != "True" => reason(&ready["reason"], &ready["message"]),
        _ => String::new(),
    }
}
