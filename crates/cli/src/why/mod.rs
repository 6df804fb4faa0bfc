//! `capstan why`: follows the chain of hand-offs to the one that waits.

mod cluster;
mod handoffs;
mod machine;

use anyhow::{Result, bail};
use jiff::Timestamp;
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use crate::args::WhyArgs;
use crate::client::Place;
use crate::{describe, stop};

/// How often `--watch` looks.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &WhyArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let mut stdout = std::io::stdout();
    let stop = stop::on_signal()?;
    let mut told = String::new();
    loop {
        let text = explain(&place, args).await?;
        if text != told {
            if args.watch && stdout.is_terminal() {
                stdout.write_all(b"\x1b[H\x1b[2J")?;
            } else if !told.is_empty() {
                stdout.write_all(b"\n")?;
            }
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())?;
            told = text;
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

async fn explain(place: &Place, args: &WhyArgs) -> Result<String> {
    let Place { client, namespace } = place;
    let now = Timestamp::now();
    let (kind, name) = args.what.split_once('/').unwrap_or(("cluster", &args.what));
    Ok(match kind.to_ascii_lowercase().as_str() {
        "cluster" | "clusters" => {
            let snapshot = describe::read(client.clone(), namespace, name).await?;
            match args.output {
                Some(output) => output.print(&cluster::json(&snapshot))?,
                None => cluster::explain(&snapshot, now),
            }
        }
        "machine" | "machines" => {
            let world = machine::read(client.clone(), namespace, name).await?;
            match args.output {
                Some(output) => output.print(&machine::json(&world))?,
                None => machine::text(&world, now),
            }
        }
        other => bail!("{other:?} cannot be asked about: say cluster/NAME or machine/NAME"),
    })
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
