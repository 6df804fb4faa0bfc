//! One cluster: the hand-off that waits, its objects, its conditions and its rollouts.

use anyhow::{Context as _, Result};
use capstan_api::core::Cluster;
use capstan_api::meta::annotations::PAUSED;
use capstan_controller::external::Externals;
use capstan_ui::model::{ClusterPage, Offer, Tone, TreeLine};
use capstan_ui::{Action, Problem, Target};
use jiff::Timestamp;
use kube::Client;
use kube::api::Api;
use serde_json::Value;

use super::fleet::row;
use super::machine::{events_of, read};
use super::objects::Objects;
use super::rollouts::{records, rollouts};
use super::text::{condition, conditions, counts, handoff, string, waiting};
use crate::describe::{self, Line, Snapshot};
use crate::why;

/// Lines of the tree that a page shows.
const LINES: usize = 400;

pub(super) async fn page(
    client: &Client,
    objects: &Objects,
    namespace: &str,
    name: &str,
) -> Result<ClusterPage> {
    let api: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    let cluster =
        api.get_opt(name).await.with_context(|| format!("cannot read Cluster {namespace}/{name}"))?;
    let cluster = cluster
        .ok_or_else(|| Problem::NotFound(format!("There is no Cluster {name} in namespace {namespace}.")))?;
    let mut snapshot = objects.snapshot(&cluster).await?;
    foreign(client, &cluster, namespace, &mut snapshot).await?;
    let now = Timestamp::now();
    let mut page = shown(&cluster, &snapshot, now);
    page.rollouts = rollouts(&snapshot, &records(client, namespace, name).await, now);
    page.machine = machine_to_show(&snapshot);
    if let Some(machine) = &page.machine {
        // It may be gone by now.
        if let Ok(world) = Box::pin(read(client, namespace, machine)).await {
            page.handoffs = why::handoffs(&world).iter().map(|one| handoff(one, now)).collect();
        }
    }
    let names: Vec<String> = [Some(&snapshot.cluster), snapshot.control_plane.as_ref()]
        .into_iter()
        .flatten()
        .chain(&snapshot.deployments)
        .map(|object| string(&object["metadata"]["name"]))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    page.events = events_of(client, namespace, &names, now).await?;
    Ok(page)
}

/// Adds the objects of foreign providers, which are not in memory.
async fn foreign(client: &Client, cluster: &Cluster, namespace: &str, snapshot: &mut Snapshot) -> Result<()> {
    let externals = Externals::new(client.clone());
    let spec = &cluster.spec;
    if snapshot.infrastructure.is_none() {
        snapshot.infrastructure =
            describe::external(&externals, spec.infrastructure_ref.as_ref(), namespace).await?;
    }
    if snapshot.control_plane.is_none() {
        snapshot.control_plane =
            describe::external(&externals, spec.control_plane_ref.as_ref(), namespace).await?;
    }
    Ok(())
}

/// The machine that the cluster waits for; else its first server.
fn machine_to_show(snapshot: &Snapshot) -> Option<String> {
    let chain = describe::waiting(snapshot);
    let waits = chain.iter().rev().find_map(|line| line.name.strip_prefix("Machine/")).map(str::to_owned);
    let is_server =
        |machine: &&Value| !machine["metadata"]["labels"]["cluster.x-k8s.io/control-plane"].is_null();
    let mut servers: Vec<String> = snapshot
        .machines
        .iter()
        .filter(is_server)
        .map(|machine| string(&machine["metadata"]["name"]))
        .collect();
    servers.sort();
    waits.or_else(|| servers.into_iter().next())
}

fn shown(cluster: &Cluster, snapshot: &Snapshot, now: Timestamp) -> ClusterPage {
    let mut tree = Vec::new();
    flatten(&describe::tree(snapshot), 0, now, &mut tree);
    let more = tree.len().saturating_sub(LINES);
    tree.truncate(LINES);
    let endpoint = &snapshot.cluster["spec"]["controlPlaneEndpoint"];
    let version = |machine: &Value| match machine["status"]["nodeInfo"]["kubeletVersion"].as_str() {
        Some(version) => format!("machines on {version}"),
        None => "machines without a Node".to_owned(),
    };
    let lists = [Some(&snapshot.cluster), snapshot.control_plane.as_ref(), snapshot.infrastructure.as_ref()];
    ClusterPage {
        row: row(cluster),
        endpoint: match endpoint["host"].as_str().filter(|host| !host.is_empty()) {
            Some(host) => format!("{host}:{}", endpoint["port"]),
            None => String::new(),
        },
        versions: counts(snapshot.machines.iter().map(|machine| (version(machine), Tone::Neutral))),
        machine: None,
        handoffs: Vec::new(),
        chain: describe::waiting(snapshot).iter().filter_map(|line| waiting(line, now)).collect(),
        tree,
        tree_more: more,
        conditions: lists
            .into_iter()
            .flatten()
            .chain(&snapshot.deployments)
            .filter_map(|object| conditions(object, now))
            .collect(),
        events: Vec::new(),
        rollouts: Vec::new(),
        offers: offers(snapshot),
    }
}

fn flatten(line: &Line, depth: usize, now: Timestamp, into: &mut Vec<TreeLine>) {
    let counts = line.counts.as_ref();
    into.push(TreeLine {
        depth: depth.min(5),
        name: line.name.clone(),
        machine: line.name.strip_prefix("Machine/").map(str::to_owned),
        host: line.name.strip_prefix("Host/").map(str::to_owned),
        version: line.version.clone().unwrap_or_default(),
        ready: counts.map(|counts| format!("{}/{}", counts.ready, counts.replicas)).unwrap_or_default(),
        up_to_date: counts.map(|counts| counts.up_to_date.to_string()).unwrap_or_default(),
        condition: line.state.as_ref().map(|state| condition(state, now)),
    });
    for child in &line.children {
        flatten(child, depth + 1, now, into);
    }
}

/// What rolls out can be restarted in place, paused and resumed.
fn offers(snapshot: &Snapshot) -> Vec<Offer> {
    let rolls_out = snapshot.control_plane.iter().chain(&snapshot.deployments);
    let known = ["CapstanControlPlane", "KubeadmControlPlane", "MachineDeployment"];
    rolls_out
        .filter(|object| known.iter().any(|kind| object["kind"] == *kind))
        .flat_map(|object| {
            let target = Target {
                kind: string(&object["kind"]),
                namespace: string(&object["metadata"]["namespace"]),
                name: string(&object["metadata"]["name"]),
                version: String::new(),
            };
            let is_paused =
                object["spec"]["paused"] == true || !object["metadata"]["annotations"][PAUSED].is_null();
            let actions = if is_paused { vec![Action::Resume] } else { vec![Action::Restart, Action::Pause] };
            actions.into_iter().map(move |action| Offer::new(action, target.clone()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_paused_can_only_be_resumed() {
        let snapshot = Snapshot {
            control_plane: Some(json!({"kind": "CapstanControlPlane", "metadata": {"name": "cp"}})),
            deployments: vec![
                json!({"kind": "MachineDeployment", "metadata": {"name": "md"}, "spec": {"paused": true}}),
            ],
            ..Snapshot::default()
        };
        let offered: Vec<_> =
            offers(&snapshot).into_iter().map(|offer| (offer.action, offer.target.name)).collect();
        let expected = [("restart", "cp"), ("pause", "cp"), ("resume", "md")]
            .map(|(action, name)| (action, name.to_owned()));
        assert_eq!(offered, expected);
    }
}
