//! `capstan why`: follows the chain of hand-offs to the one that waits.

mod cluster;
mod handoffs;
mod machine;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use std::io::Write as _;

use crate::args::WhyArgs;
use crate::describe;

pub(crate) async fn run(client: Client, args: &WhyArgs) -> Result<()> {
    let namespace = &args.namespace;
    let now = Timestamp::now();
    let (kind, name) = args.what.split_once('/').unwrap_or(("cluster", &args.what));
    let text = match kind.to_ascii_lowercase().as_str() {
        "cluster" | "clusters" => {
            let snapshot = describe::read(client, namespace, name).await?;
            match args.output {
                Some(output) => output.print(&cluster::json(&snapshot))?,
                None => cluster::explain(&snapshot, now),
            }
        }
        "machine" | "machines" => {
            let world = machine::read(client, namespace, name).await?;
            match args.output {
                Some(output) => output.print(&machine::json(&world))?,
                None => machine::text(&world, now),
            }
        }
        other => bail!("{other:?} cannot be asked about: say cluster/NAME or machine/NAME"),
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

/// The end of what the step that failed or runs has printed on that machine.
fn last_lines(report: &Value) -> Option<String> {
    let output = &report["status"]["output"];
    let part = |stream: &str| {
        let excerpt = &output[stream];
        excerpt["tail"].as_str().or_else(|| excerpt["head"].as_str()).map(str::to_owned)
    };
    let text: String = ["stdout", "stderr"].into_iter().filter_map(part).collect();
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}\n")).collect();
    (!lines.is_empty()).then(|| lines[lines.len().saturating_sub(10)..].concat())
}
