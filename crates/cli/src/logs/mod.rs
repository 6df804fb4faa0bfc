//! `capstan logs machine/NAME`: the latest output of the machine, as its agent reports it.

mod args;

pub(crate) use args::LogsArgs;

use anyhow::{Context, Result, bail};
use capstan_api::agent::{Excerpt, MachineReport, MachineReportStatus};
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
        Some(Format::Wide) | None => match &args.step {
            Some(step) => of_step(&report, step)?,
            None => text(&report),
        },
    };
    std::io::stdout().write_all(printed.as_bytes())?;
    if args.watch {
        watch(api, name, args.step.as_deref(), printed).await?;
    }
    Ok(())
}

/// Prints what is new, until somebody presses Ctrl-C or the report is gone.
async fn watch(api: Api<MachineReport>, name: &str, step: Option<&str>, mut printed: String) -> Result<()> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut reports = std::pin::pin!(watcher(api, config).default_backoff().applied_objects());
    let stop = stop::on_signal()?;
    loop {
        let next = tokio::select! {
            next = reports.try_next() => next.context("cannot watch the report")?,
            () = stop.clone() => None,
        };
        let Some(report) = next else { return Ok(()) };
        // A step that a new plan has not come to has printed nothing yet.
        let news = match step {
            Some(step) => of_step(&report, step).unwrap_or_default(),
            None => text(&report),
        };
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
    text.push_str(&streams(status));
    harmless(&text)
}

/// The output of the current step.
fn streams(status: &MachineReportStatus) -> String {
    let mut text = String::new();
    let output = status.output.clone().unwrap_or_default();
    for (stream, excerpt) in [("stdout", output.stdout), ("stderr", output.stderr)] {
        for line in excerpt.iter().flat_map(lines) {
            // Writing to a String cannot fail.
            _ = writeln!(text, "{stream}  {line}");
        }
    }
    text
}

/// For people: what a step has printed last.
///
/// # Errors
/// If the report does not have it.
fn of_step(report: &MachineReport, step: &str) -> Result<String> {
    let status = report.status.clone().unwrap_or_default();
    let is_current = status.step.as_ref().is_some_and(|current| current.name == step);
    if is_current && status.output.is_some() {
        return Ok(harmless(&streams(&status)));
    }
    let tails = status.outputs.iter().map(|tail| (&tail.step, [&tail.stdout, &tail.stderr]));
    let periodic = status.periodic.iter().map(|run| (&run.name, [&run.stdout, &run.stderr]));
    let Some((_, [stdout, stderr])) =
        tails.clone().chain(periodic.clone()).find(|(name, _)| name.as_str() == step)
    else {
        let current = status.step.iter().filter(|_| status.output.is_some()).map(|current| &current.name);
        let known: Vec<&str> =
            current.chain(tails.chain(periodic).map(|(name, _)| name)).map(String::as_str).collect();
        let known = if known.is_empty() { "no step".to_owned() } else { known.join(", ") };
        bail!(
            "the report has no output of step {step:?}; it has output of {known}. On the machine, `capstan-agent explain --step \
             {step}` prints what it has kept"
        );
    };
    let mut text = String::new();
    for (stream, output) in [("stdout", stdout), ("stderr", stderr)] {
        for line in output.iter().flat_map(|output| output.lines()) {
            // Writing to a String cannot fail.
            _ = writeln!(text, "{stream}  {line}");
        }
    }
    Ok(harmless(&text))
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

    #[test]
    fn the_output_of_any_step_is_shown() {
        let report: MachineReport = serde_json::from_value(json!({
            "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": {"name": "m"},
            "spec": {"machineID": "i", "machineName": "m"},
            "status": {
                "plan": {"digest": "0".repeat(64), "revision": 3}, "phase": "Failed",
                "step": {"name": "start", "index": 3, "total": 7}, "output": {"stderr": {"head": "no"}},
                "outputs": [{"step": "install", "exitCode": 0, "stdout": "a\n\x1b[2Jb", "stderr": "c"}],
            },
        }))
        .expect("a report");
        assert_eq!(
            of_step(&report, "install").expect("output"),
            "stdout  a\nstdout  \u{fffd}[2Jb\nstderr  c\n"
        );
        assert_eq!(of_step(&report, "start").expect("output"), "stderr  no\n");
        let error = of_step(&report, "ready").expect_err("no output").to_string();
        assert!(error.contains("it has output of start, install. On the machine"), "{error}");
    }
}
