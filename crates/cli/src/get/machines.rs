//! The columns of `capstan get machines`. Pure.

use capstan_api::infrastructure::ProviderId;
use jiff::Timestamp;
use kube::core::ApiResource;
use serde_json::Value;

use super::KindTable;
use super::cells::{created, name, phase, status, text, waits_for};

const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

pub(super) fn shown(resource: ApiResource) -> KindTable {
    KindTable {
        resource,
        titles: &[
            "NAME",
            "CLUSTER",
            "ROLE",
            "PHASE",
            "VERSION",
            "NODE",
            "HOST",
            "AGE",
            "READY",
            "UP TO DATE",
            "ADDRESS",
            "FAILURE DOMAIN",
            "OWNER",
            "OS",
            "PROVIDER ID",
        ],
        usual: 8,
        row,
        waits: |machine| waits_for(machine, "Ready"),
        key: |machine| {
            // Control plane machines first, as they are made and changed first.
            let role = if is_server(machine) { "0" } else { "1" };
            let (namespace, cluster) =
                (text(&machine["metadata"]["namespace"]), text(&machine["spec"]["clusterName"]));
            vec![namespace, cluster, role.to_owned(), name(machine).to_owned()]
        },
    }
}

fn row(machine: &Value, now: Timestamp) -> Vec<String> {
    let (spec, status_of) = (&machine["spec"], &machine["status"]);
    vec![
        name(machine).to_owned(),
        text(&spec["clusterName"]),
        (if is_server(machine) { "control-plane" } else { "worker" }).to_owned(),
        phase(machine),
        text(&spec["version"]),
        text(&status_of["nodeRef"]["name"]),
        host(&spec["providerID"]),
        created(machine, now),
        status(machine, "Ready"),
        status(machine, "UpToDate"),
        address(machine),
        text(&spec["failureDomain"]),
        owner(machine),
        text(&status_of["nodeInfo"]["osImage"]),
        text(&spec["providerID"]),
    ]
}

fn is_server(machine: &Value) -> bool {
    machine["metadata"]["labels"].get(CONTROL_PLANE).is_some()
}

/// The Host of a Machine on Capstan's infrastructure.
fn host(provider_id: &Value) -> String {
    provider_id.as_str().and_then(ProviderId::parse).map(|id| id.host.to_owned()).unwrap_or_default()
}

/// The first internal address, else the first of any type.
fn address(machine: &Value) -> String {
    let addresses = machine["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let internal = addresses.iter().find(|address| address["type"] == "InternalIP");
    internal.or(addresses.first()).map(|address| text(&address["address"])).unwrap_or_default()
}

fn owner(machine: &Value) -> String {
    let owners = machine["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let owner = owners.iter().find(|owner| owner["controller"] == true);
    owner.map(|owner| format!("{}/{}", text(&owner["kind"]), text(&owner["name"]))).unwrap_or_default()
}
