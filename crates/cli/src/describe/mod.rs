//! `capstan describe cluster`: shows the objects of a cluster and their conditions.

mod args;
mod group;
mod read;
mod render;
mod tree;

pub(crate) use args::{Describe, DescribeArgs};
pub(crate) use read::{external, read};
pub(crate) use render::age;
pub(crate) use tree::{Line, Snapshot, State};

use anyhow::Result;
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

use crate::client::Place;
use crate::terminal::Look;
use tree::Options;

/// How often `--watch` looks.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &DescribeArgs) -> Result<()> {
    let Place { client, namespace } = args.place.connect().await?;
    let find = async || Ok(tree::tree(&read(client.clone(), &namespace, &args.name).await?, &args.options()));
    args.show.show(LOOK, find, |tree, look| render::render(tree, Timestamp::now(), look)).await.map(drop)
}

/// The tree, with a line for each machine.
pub(crate) fn tree(snapshot: &Snapshot) -> Line {
    tree::tree(snapshot, &Options::default())
}

/// The tree as text, with a line for each machine.
pub(crate) fn render(snapshot: &Snapshot, now: Timestamp, look: Look) -> String {
    render::render(&tree::tree(snapshot, &Options::default()), now, look)
}

/// The chain from the cluster to the object that it waits for: at each level the first object that is not ready.
pub(crate) fn waiting(snapshot: &Snapshot) -> Vec<Line> {
    let mut chain = Vec::new();
    let mut below = vec![tree::tree(snapshot, &Options::default())];
    while let Some(line) = below.into_iter().find_map(first_unwell) {
        below = line.children.clone();
        chain.push(line);
    }
    chain
}

/// The line itself if it is not well, else the first one below it: a cluster can be available although one of its
/// machines is not ready.
fn first_unwell(line: Line) -> Option<Line> {
    let is_well = line.state.as_ref().is_none_or(|state| matches!(state.status.as_str(), "True" | "Applied"));
    if is_well { line.children.into_iter().find_map(first_unwell) } else { Some(line) }
}

/// Progress of a cluster, on one line.
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
