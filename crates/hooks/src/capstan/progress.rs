//! How far the update of a machine is, by its plan and its report. Pure.
//!
//! Core has written what the machine should become; the planner makes a plan from it and says on the plan which setup it
//! stands for; the machine's report says of exactly these bytes whether they have been carried out.
//!
//! Core lets go of a Machine only when its update is over. So an update that cannot succeed, or has not begun, is given
//! up as soon as core wants to hand the Machine on: what it should become next mends what went wrong.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::{CapstanConfig, CapstanConfigSpec};
use capstan_api::conditions::get;
use capstan_api::core::{Machine, MachineSet};
use capstan_api::runtime::annotations::in_place::MOVE_MACHINES_TO;
use capstan_api::runtime::hooks::{CommonResponse, MachineObjects, UpdateMachineResponse};
use capstan_controller::{identity, plans};
use capstan_plan::{Phase, PlanId, Progress, Report, SecretData, SignedPlan, StepOutput};
use k8s_openapi::api::core::v1::Secret;
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
    /// The Secret with its plan.
    pub plan: Option<Secret>,
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
    let Some(plan) = plan_for(config, seen.plan.as_ref(), &wanted) else {
        return without_plan(config);
    };
    let id = identity::of(config).unwrap_or_default();
    let report = seen.report.as_ref().and_then(|report| plans::report(report, &machine.name_any(), id));
    reported(plan, report.as_ref())
}

/// The plan that the machine has, if it stands for this setup and is for this very life of the machine.
fn plan_for(config: &CapstanConfig, secret: Option<&Secret>, wanted: &str) -> Option<PlanId> {
    let (secret, id) = (secret?, identity::of(config)?);
    let is_for = |key: &str, value: &str| secret.annotations().get(key).is_some_and(|is| is == value);
    if !is_for(plans::PLAN_SETUP, wanted) || !is_for(identity::MACHINE_ID, id) {
        return None;
    }
    let data: SecretData =
        secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect();
    SignedPlan::from_secret_data(&data).ok().map(|signed| signed.id())
}

/// Why there is no plan yet is said by the planner, on the CapstanConfig.
fn without_plan(config: &CapstanConfig) -> Stand {
    let planned = get(config, plans::PLANNED).filter(|planned| planned.status.to_string() == "False");
    match planned {
        Some(planned) if planned.reason == plans::PLAN_REFUSED => Stand::Failed(planned.message.clone()),
        Some(planned) => Stand::NotBegun(planned.message.clone()),
        None => Stand::NotBegun("waits for its plan".to_owned()),
    }
}

fn reported(plan: PlanId, report: Option<&Report>) -> Stand {
    if report.and_then(Report::applied) == Some(plan) {
        return Stand::Done;
    }
    let revision = plan.revision();
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
