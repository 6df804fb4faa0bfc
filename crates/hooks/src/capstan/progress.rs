//! The progress of the update of a machine, from its plan and its report. Pure.
//!
//! Core has written the desired state of the machine. The planner makes a plan from it, and names that plan in the
//! status of the CapstanConfig, with its setup and the machine ID. The report of the machine has whether exactly this
//! plan was applied.
//!
//! The status may be older than the plan Secret, and it is missing after a move or until the first reconcile of a
//! planner that writes it. Then the update is in progress. An update is done only if the newest plan in the report is
//! the one in the status.
//!
//! Core hands over a Machine only after its update has ended. So an update that cannot succeed, or has not begun, is
//! ended as soon as core wants to hand over the Machine: the next desired state replaces the failed one.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::{CapstanConfig, CapstanConfigSpec};
use capstan_api::conditions::get;
use capstan_api::core::{Machine, MachineSet};
use capstan_api::runtime::annotations::in_place::MOVE_MACHINES_TO;
use capstan_api::runtime::hooks::{CommonResponse, MachineObjects, UpdateMachineResponse};
use capstan_controller::{identity, plans};
use capstan_plan::{Phase, PlanId, Progress, Report, Standing, StepOutput};
use kube::ResourceExt as _;
use serde_json::Value;

use super::changes::is_ours;

/// Core asks again after so many seconds.
const SOON: i32 = 1;

/// So many of the last lines that a machine printed are told.
const LINES: usize = 10;

/// The current objects that show the progress of an update.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The Machine.
    pub machine: Option<Machine>,
    /// The MachineSet that owns the Machine.
    pub set: Option<MachineSet>,
    /// Its CapstanConfig.
    pub config: Option<CapstanConfig>,
    /// Its report.
    pub report: Option<MachineReport>,
}

/// How far an update is.
enum Stand {
    Done,
    /// The machine has no new plan yet, and why.
    NotBegun(String),
    UnderWay(String),
    Failed(String),
}

/// The response to `UpdateMachine`: the progress of the machine towards the desired state.
pub fn answer(desired: &MachineObjects, seen: &Seen) -> UpdateMachineResponse {
    let success = |message: Option<String>, retry_after_seconds| UpdateMachineResponse {
        common: CommonResponse { message, ..CommonResponse::success() },
        retry_after_seconds,
    };
    match stand(desired, seen) {
        Stand::Done => success(None, 0),
        Stand::Failed(_) | Stand::NotBegun(_) if is_handed_on(seen) => {
            success(Some("given up for what the machine should become next".to_owned()), 0)
        }
        Stand::NotBegun(message) | Stand::UnderWay(message) => success(Some(message), SOON),
        Stand::Failed(message) => failure(message),
    }
}

/// Whether core wants to hand the Machine to another MachineSet, to be changed again.
fn is_handed_on(seen: &Seen) -> bool {
    let to = seen.set.as_ref().and_then(|set| set.annotations().get(MOVE_MACHINES_TO));
    to.is_some_and(|to| !to.is_empty())
}

fn stand(desired: &MachineObjects, seen: &Seen) -> Stand {
    let failed = |why: &str| Stand::Failed(why.to_owned());
    if !is_ours(desired.bootstrap_config.as_ref()) {
        return failed(
            "the machine was not set up by Capstan: its bootstrap.configRef is not a CapstanConfig",
        );
    }
    let spec = desired.bootstrap_config.as_ref().and_then(|config| config.get("spec")).cloned();
    let spec = spec.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let Ok(spec) = serde_json::from_value::<CapstanConfigSpec>(spec) else {
        return failed("the CapstanConfig is not what this version of Capstan knows");
    };
    let version = desired.machine.spec.version.as_deref().unwrap_or_default();
    let (Some(machine), Some(config)) = (&seen.machine, &seen.config) else {
        return failed("the Machine or its CapstanConfig is gone");
    };
    let wanted = plans::setup(version, &spec);
    let now = plans::setup(machine.spec.version.as_deref().unwrap_or_default(), &config.spec);
    if wanted != now {
        // Core asks from what it has read a while ago, and will read what is there now.
        return Stand::UnderWay("waits for Cluster API to see the machine as it is now".to_owned());
    }
    let id = identity::of(config).unwrap_or_default();
    let report = seen.report.as_ref().and_then(|report| plans::report(report, &machine.name_any(), id));
    match plans::planned(config, &wanted) {
        Some(plan) => reported(plan, report.as_ref()),
        None => without_plan(config, report.as_ref()),
    }
}

/// The newest plan that the machine knows.
fn newest(report: &Report) -> Option<PlanId> {
    match &report.standing {
        Standing::Plan(progress) => Some(progress.plan),
        Standing::Idle | Standing::Unreadable { .. } => report.applied(),
    }
}

/// Why there is no plan yet is said by the planner, on the CapstanConfig. Until it has said anything, and as long as it does not
/// name the plan that the machine reports, it is not known whether there is one.
fn without_plan(config: &CapstanConfig, report: Option<&Report>) -> Stand {
    let waits = get(config, plans::PLANNED).filter(|planned| planned.status.to_string() == "False");
    let is_told = config.status.as_ref().is_some_and(|status| status.plan.is_some());
    match waits {
        Some(waits) if waits.reason == plans::PLAN_REFUSED => Stand::Failed(waits.message.clone()),
        Some(waits) if is_told || report.and_then(newest).is_none() => Stand::NotBegun(waits.message.clone()),
        None if is_told => Stand::NotBegun("waits for its plan".to_owned()),
        _ => Stand::UnderWay(
            "waits for the control plane provider to say which plan the machine has".to_owned(),
        ),
    }
}

fn reported(plan: PlanId, report: Option<&Report>) -> Stand {
    let revision = plan.revision();
    if report.and_then(newest).is_some_and(|newest| newest.revision() > revision) {
        // The status is behind the plan Secret. What the machine does now may be for another setup.
        let message =
            format!("waits for the control plane provider: the machine has a newer plan than {revision}");
        return Stand::UnderWay(message);
    }
    if report.and_then(Report::applied) == Some(plan) {
        return Stand::Done;
    }
    let Some(progress) = report.and_then(|report| report.about(plan)) else {
        return Stand::UnderWay(format!("waits for the machine to begin plan {revision}"));
    };
    match progress.phase {
        Phase::Failed | Phase::Refused => Stand::Failed(format!("plan {revision} failed{}", place(progress))),
        Phase::Waiting => Stand::UnderWay(format!("plan {revision} waits{}", place(progress))),
        Phase::Applying | Phase::Applied => Stand::UnderWay(format!("plan {revision}{}", place(progress))),
    }
}

/// Where the machine is in its plan, why it stopped there, and what it printed last.
fn place(progress: &Progress) -> String {
    let mut text = String::new();
    if let Some(step) = &progress.step {
        text.push_str(&format!(" at step {} of {}, {}", step.index, step.total, step.name));
        if let Some(code) = step.exit_code {
            text.push_str(&format!(" (exit code {code})"));
        }
    }
    if let Some(message) = progress.message.as_deref().filter(|message| !message.is_empty()) {
        text.push_str(": ");
        text.push_str(message);
    }
    if progress.phase == Phase::Failed {
        for line in last_lines(&progress.output) {
            text.push('\n');
            text.push_str(&line);
        }
    }
    text
}

fn last_lines(output: &StepOutput) -> Vec<String> {
    let excerpts = [&output.stdout, &output.stderr].into_iter().flatten();
    let texts = excerpts.filter_map(|excerpt| excerpt.tail.as_deref().or(excerpt.head.as_deref()));
    let lines: Vec<String> = texts.flat_map(str::lines).map(str::to_owned).collect();
    lines[lines.len().saturating_sub(LINES)..].to_vec()
}

pub(super) fn failure(message: impl Into<String>) -> UpdateMachineResponse {
    UpdateMachineResponse { common: CommonResponse::failure(message), retry_after_seconds: 0 }
}

#[cfg(test)]
#[path = "tests/progress.rs"]
mod tests;
