//! `capstan describe cluster`: what a cluster is made of, and how each part does.

mod args;
mod group;
mod read;
mod render;
mod tree;

pub(crate) use args::{Describe, DescribeArgs};
pub(crate) use read::{external, read};
pub(crate) use render::age;
pub(crate) use tree::Snapshot;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use crate::args::Output;
use crate::client::Place;
use crate::stop;
use args::Format;
use render::Look;
use tree::{Line, Options};

/// How often `--watch` looks.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &DescribeArgs) -> Result<()> {
    let Place { client, namespace } = args.place.connect().await?;
    let mut stdout = std::io::stdout();
    let stop = stop::on_signal()?;
    let (mut shown, mut shown_at) = (None, Timestamp::UNIX_EPOCH);
    loop {
        let tree = tree::tree(&read(client.clone(), &namespace, &args.name).await?, &args.options());
        let now = Timestamp::now();
        // On a terminal ages count on; elsewhere only news are printed.
        let is_terminal = stdout.is_terminal();
        if shown.as_ref() != Some(&tree) || is_terminal && now.duration_since(shown_at).as_secs() >= 5 {
            let text = print(args, &tree, now)?;
            if args.watch && is_terminal {
                stdout.write_all(b"\x1b[H\x1b[2J")?;
            }
            stdout.write_all(text.as_bytes())?;
            stdout.flush()?;
            (shown, shown_at) = (Some(tree), now);
        }
        if !args.watch {
            return Ok(());
        }
        tokio::select! {
            () = stop.clone() => return Ok(()),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

fn print(args: &DescribeArgs, tree: &Line, now: Timestamp) -> Result<String> {
    match args.output {
        Some(Format::Json) => Output::Json.print(tree),
        Some(Format::Yaml) => Output::Yaml.print(tree),
        wide => {
            let look = Look {
                color: crate::terminal::color(args.color),
                width: crate::terminal::width(),
                wide: wide == Some(Format::Wide),
            };
            Ok(render::render(tree, now, look))
        }
    }
}

/// The tree as text, with a line for each machine.
pub(crate) fn render(snapshot: &Snapshot, now: Timestamp) -> String {
    render::render(&tree::tree(snapshot, &Options::default()), now, Look::default())
}

/// From the cluster down to what it waits for: at each step the first part that is not well.
pub(crate) fn waiting(snapshot: &Snapshot) -> Vec<Line> {
    let mut chain = Vec::new();
    let mut below = vec![tree::tree(snapshot, &Options::default())];
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
