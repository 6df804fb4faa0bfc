//! The columns of `capstan get clusters`. Pure.

use jiff::Timestamp;
use kube::core::ApiResource;
use serde_json::Value;

use super::KindTable;
use super::cells::{created, name, phase, status, text, waits_for};

pub(super) fn shown(resource: ApiResource) -> KindTable {
    KindTable {
        resource,
        titles: &[
            "NAME",
            "PHASE",
            "VERSION",
            "CONTROL PLANE",
            "WORKERS",
            "AGE",
            "AVAILABLE",
            "UP TO DATE",
            "ENDPOINT",
            "INFRASTRUCTURE",
            "CONTROL PLANE OBJECT",
        ],
        usual: 6,
        row,
        waits: |cluster| waits_for(cluster, "Available"),
        key: |cluster| vec![text(&cluster["metadata"]["namespace"]), name(cluster).to_owned()],
    }
}

fn row(cluster: &Value, now: Timestamp) -> Vec<String> {
    let status_of = &cluster["status"];
    let counted = |field: &str| format!("{}/{}", sum(cluster, field), sum(cluster, "desiredReplicas"));
    vec![
        name(cluster).to_owned(),
        phase(cluster),
        version(cluster),
        ready(&status_of["controlPlane"]),
        ready(&status_of["workers"]),
        created(cluster, now),
        status(cluster, "Available"),
        counted("upToDateReplicas"),
        endpoint(cluster),
        reference(&cluster["spec"]["infrastructureRef"]),
        reference(&cluster["spec"]["controlPlaneRef"]),
    ]
}

/// The versions that control plane machines run, oldest first; more than one while they are upgraded.
fn version(cluster: &Value) -> String {
    let versions = cluster["status"]["controlPlane"]["versions"].as_array();
    let versions: Vec<String> = versions.into_iter().flatten().map(|it| text(&it["version"])).collect();
    match versions.is_empty() {
        true => text(&cluster["spec"]["topology"]["version"]),
        false => versions.join(","),
    }
}

/// Ready machines of those that are wanted.
fn ready(part: &Value) -> String {
    match part["desiredReplicas"].as_i64() {
        Some(desired) => format!("{}/{desired}", part["readyReplicas"].as_i64().unwrap_or(0)),
        None => String::new(),
    }
}

fn sum(cluster: &Value, field: &str) -> i64 {
    let parts = [&cluster["status"]["controlPlane"], &cluster["status"]["workers"]];
    parts.iter().filter_map(|part| part[field].as_i64()).sum()
}

fn endpoint(cluster: &Value) -> String {
    let endpoint = &cluster["spec"]["controlPlaneEndpoint"];
    match (endpoint["host"].as_str(), endpoint["port"].as_i64()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        _ => String::new(),
    }
}

fn reference(reference: &Value) -> String {
    match (reference["kind"].as_str(), reference["name"].as_str()) {
        (Some(kind), Some(name)) => format!("{kind}/{name}"),
        _ => String::new(),
    }
}
