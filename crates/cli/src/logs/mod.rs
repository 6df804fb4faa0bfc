//! `capstan logs machine/NAME`: the latest output of the machine, as its agent reports it.

mod args;

pub(crate) use args::LogsArgs;

use anyhow::{Context, Result, bail};
use capstan_api::agent::{Excerpt, MachineReport};
use futures::TryStreamExt as _;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use std::fmt::Write as _;
use std::io::Write as _;

use crate::args::Output;
use crate::client::{ASKING, Place};
use crate::progress::waiting;
use crate::show::Format;
use crate::stop;
use crate::terminal::harmless;

pub(crate) async fn run(args: &LogsArgs) -> Result<()> {
    let name = match args.what.split_once('/') {
        None => args.what.as_str(),
        Some(("machine" | "machines", name)) => name,
        Some((kind, _)) => bail!("{kind:?} has no logs: say machine/NAME"),
    };
    let Place { client, namespace } = args.place.connect().await?;
    let api: Api<MachineReport> = Api::namespaced(client, &namespace);
    let found = match waiting(ASKING, api.get_opt(name)).await {
        // Where nobody knows the kind there are no reports.
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        found => found.with_context(|| format!("cannot read what Machine {namespace}/{name} reports"))?,
    };
    let report = found.with_context(|| {
        format!(
            "Machine {name} in namespace {namespace} has reported nothing: either there is none (`kubectl get machines -n \
             {namespace}`), or its agent has not come so far (`capstan why machine/{name} -n {namespace}`)"
        )
    })?;
    let printed = match args.output {
        Some(Format::Json) => Output::Json.print(&report)?,
        Some(Format::Yaml) => Output::Yaml.print(&report)?,
        Some(Format::Wide) | None => text(&report),
    };
    std::io::stdout().write_all(printed.as_bytes())?;
    if args.watch {
        watch(api, name, printed).await?;
    }
    Ok(())
}

/// Prints what is new, until somebody presses Ctrl-C or the report is gone.
async fn watch(api: Api<MachineReport>, name: &str, mut printed: String) -> Result<()> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut reports = std::pin::pin!(watcher(api, config).default_backoff().applied_objects());
    let stop = stop::on_signal()?;
    loop {
        let next = tokio::select! {
            next = reports.try_next() => next.context("cannot watch the report")?,
            () = stop.clone() => None,
        };
        let Some(report) = next else { return Ok(()) };
        let news = text(&report);
        if news != printed {
            std::io::stdout().write_all(news.as_bytes())?;
            printed = news;
        }
    }
}

/// For people: where the plan stands, and what its step has printed.
fn text(report: &MachineReport) -> String {
    let Some(status) = &report.status else { return "the agent has not reported yet\n".to_owned() };
    let mut text = String::new();
    // Writing to a String cannot fail.
    match (&status.plan, status.phase) {
        (Some(plan), Some(phase)) => {
            _ = write!(text, "plan {}: {phase:?}", plan.revision);
            if let Some(step) = &status.step {
                _ = write!(text, ", step {} of {}, {}", step.index, step.total, step.name);
                if let Some(code) = step.exit_code {
                    _ = write!(text, " (exit code {code})");
                }
            }
            text.push('\n');
        }
        _ => text.push_str("no plan yet\n"),
    }
    for line in status.message.iter().flat_map(|message| message.lines()) {
        _ = writeln!(text, "{line}");
    }
    let output = status.output.clone().unwrap_or_default();
    for (stream, excerpt) in [("stdout", output.stdout), ("stderr", output.stderr)] {
        for line in excerpt.iter().flat_map(lines) {
            _ = writeln!(text, "{stream}  {line}");
        }
    }
    harmless(&text)
}

fn lines(excerpt: &Excerpt) -> Vec<String> {
    let of = |part: &Option<String>| {
        part.iter().flat_map(|text| text.lines()).map(str::to_owned).collect::<Vec<_>>()
    };
    let (head, tail) = (of(&excerpt.head), of(&excerpt.tail));
    let gap = (!head.is_empty() && !tail.is_empty()).then(|| "[…]".to_owned());
    [head, gap.into_iter().collect(), tail].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_shown_with_the_output_of_its_step() {
        let report: MachineReport = serde_json::from_value(json!({
            "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": {"name": "m"},
            "spec": {"machineID": "i", "machineName": "m"},
            "status": {
                "plan": {"digest": "0".repeat(64), "revision": 3}, "phase": "Failed", "message": "it did not start",
                "step": {"name": "start", "index": 2, "total": 7, "exitCode": 1},
                "output": {"stdout": {"head": "a\n\x1b[2Jb", "tail": "z"}, "stderr": {"head": "no"}},
            },
        }))
        .expect("a report");
        let expected = "plan 3: Failed, step 2 of 7, start (exit code 1)\nit did not start\n\
                        stdout  a\nstdout  \u{fffd}[2Jb\nstdout  […]\nstdout  z\nstderr  no\n";
        assert_eq!(text(&report), expected);
    }
}
