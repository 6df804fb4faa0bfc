//! `capstan describe cluster`: what a cluster is made of, and how each part does.

mod render;
mod tree;

use anyhow::{Context, Result};
use capstan_api::agent::MachineReport;
use capstan_api::core::{Cluster, Machine, MachineDeployment};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::external::Externals;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ListParams};
use serde::Serialize;
use serde_json::Value;
use std::io::Write as _;

use tree::Line;

pub(crate) use render::age;
pub(crate) use tree::Snapshot;

pub(crate) async fn run(client: Client, namespace: &str, name: &str) -> Result<()> {
    let snapshot = read(client, namespace, name).await?;
    let text = render(&snapshot, Timestamp::now());
    std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

/// The tree as text.
pub(crate) fn render(snapshot: &Snapshot, now: Timestamp) -> String {
    render::render(&tree::tree(snapshot), now)
}

/// From the cluster down to what it waits for: at each step the first part that is not well.
pub(crate) fn waiting(snapshot: &Snapshot) -> Vec<Line> {
    let mut chain = Vec::new();
    let mut below = vec![tree::tree(snapshot)];
    while let Some(line) = below.into_iter().find_map(first_unwell) {
        below = line.children.clone();
        chain.push(line);
    }
    chain
}

/// The line itself, or one below it that is not well; a line that only groups others has no say of its own.
fn first_unwell(line: Line) -> Option<Line> {
    match &line.state {
        Some(state) => (!matches!(state.status.as_str(), "True" | "Applied")).then_some(line),
        None => line.children.into_iter().find_map(first_unwell),
    }
}

/// How far a cluster is, on one line.
pub(crate) fn progress(snapshot: &Snapshot) -> String {
    let is_ready = |machine: &&Value| {
        let conditions = machine["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let phase = |machine: &Value| machine["status"]["phase"].as_str().unwrap_or("Pending").to_owned();
    let mut phases: Vec<String> = snapshot.machines.iter().map(phase).collect();
    phases.sort();
    phases.dedup();
    let ready = snapshot.machines.iter().filter(is_ready).count();
    match snapshot.machines.len() {
        0 => "no machines yet".to_owned(),
        machines => format!("{machines} machines, {ready} ready ({})", phases.join(", ")),
    }
}

/// Reads everything the tree shows. Objects may come and go meanwhile: a picture, not a proof.
pub(crate) async fn read(client: Client, namespace: &str, name: &str) -> Result<Snapshot> {
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    let cluster = clusters
        .get_opt(name)
        .await
        .with_context(|| format!("cannot read Cluster {namespace}/{name}"))?
        .with_context(|| format!("there is no Cluster {name} in namespace {namespace}"))?;
    let externals = Externals::new(client.clone());
    let of_cluster = ListParams::default().labels(&format!("{}={name}", labels::CLUSTER_NAME));
    let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
    let machines = machines.list(&of_cluster).await.context("cannot list Machines")?.items;
    let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), namespace);
    let deployments = deployments.list(&of_cluster).await.context("cannot list MachineDeployments")?.items;
    let reports: Api<MachineReport> = Api::namespaced(client, namespace);
    // Another control plane provider has no reports, nor their CRD.
    let reports = reports.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();

    let mut infrastructure_machines = Vec::new();
    for machine in &machines {
        let found = external(&externals, Some(&machine.spec.infrastructure_ref), namespace).await?;
        infrastructure_machines.extend(found);
    }
    Ok(Snapshot {
        infrastructure: external(&externals, cluster.spec.infrastructure_ref.as_ref(), namespace).await?,
        control_plane: external(&externals, cluster.spec.control_plane_ref.as_ref(), namespace).await?,
        cluster: value(&cluster)?,
        deployments: deployments.iter().map(value).collect::<Result<_>>()?,
        machines: machines.iter().map(value).collect::<Result<_>>()?,
        reports: reports.iter().map(value).collect::<Result<_>>()?,
        infrastructure_machines,
    })
}

pub(crate) async fn external(
    externals: &Externals,
    reference: Option<&ContractVersionedObjectReference>,
    namespace: &str,
) -> Result<Option<Value>> {
    let Some(reference) = reference else { return Ok(None) };
    let object = externals.get(reference, namespace).await?;
    object.map(|object| value(&object)).transpose()
}

fn value(object: &impl Serialize) -> Result<Value> {
    serde_json::to_value(object).context("cannot serialise an object")
}
