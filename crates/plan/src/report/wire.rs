//! The serialized report: the status of a MachineReport, with the limits of that schema.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Drift, Excerpt, Facts, HostileReport, Ledger, LedgerItem, PeriodicResult, Phase, ProbeResult, Progress,
    RejectedProgram, Report, ReportedProgram, Standing, StepOutput, StepProgress, StepTail,
};
use crate::{KeyId, PlanId, ReportedCapabilities, limits};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<PlanId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<StepProgress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    applied: Option<PlanId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "StepOutput::is_empty")]
    output: StepOutput,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<StepTail>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    probes: Vec<ProbeResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    periodic: Vec<PeriodicResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drift: Vec<Drift>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    facts: Option<Facts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ledger: Option<Ledger>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan_key: Option<KeyId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capabilities: Option<ReportedCapabilities>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_program: Option<ReportedProgram>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::option")]
    last_updated: Option<Timestamp>,
}

impl From<Report> for Status {
    fn from(report: Report) -> Self {
        let applied = report.applied();
        let mut status = Self {
            plan: None,
            phase: None,
            step: None,
            applied,
            message: None,
            output: StepOutput::default(),
            attempts: None,
            outputs: report.outputs.into_iter().map(tail).take(limits::OUTPUTS).collect(),
            probes: report.probes.into_iter().take(limits::PROBES).map(probe).collect(),
            periodic: report.periodic.into_iter().take(limits::PERIODIC).map(periodic).collect(),
            drift: report.drift.into_iter().take(limits::DRIFT_ITEMS).map(drift).collect(),
            facts: report.facts.map(facts).filter(|facts| *facts != Facts::default()),
            ledger: report.ledger.map(ledger),
            plan_key: report.plan_key,
            problem: text(report.problem, 1024),
            agent_version: text(report.agent_version, 64),
            capabilities: report.capabilities.map(capabilities),
            agent_program: report.agent_program.map(program),
            last_updated: report.last_updated,
        };
        match report.standing {
            Standing::Idle => {}
            Standing::Unreadable { message } => {
                status.phase = Some(Phase::Refused);
                status.message = text(Some(message), 4096);
            }
            Standing::Plan(progress) => {
                status.plan = Some(progress.plan);
                status.phase = Some(progress.phase);
                status.step = progress.step;
                status.message = text(progress.message, 4096);
                status.output = output(progress.output);
                status.attempts = progress.attempts.map(|attempts| attempts.min(i32::MAX as u32));
            }
        }
        status
    }
}

impl TryFrom<Status> for Report {
    type Error = HostileReport;

    fn try_from(status: Status) -> Result<Self, HostileReport> {
        if status.step.as_ref().is_some_and(|step| step.index == 0 || step.index > step.total) {
            return Err(HostileReport::NoStep);
        }
        let standing = match (status.plan, status.phase) {
            (Some(plan), Some(Phase::Applied)) if status.applied != Some(plan) => {
                return Err(HostileReport::NotApplied);
            }
            (Some(plan), Some(phase)) => Standing::Plan(Progress {
                plan,
                phase,
                step: status.step,
                message: status.message,
                output: status.output,
                attempts: status.attempts,
            }),
            (None, Some(Phase::Refused)) => {
                Standing::Unreadable { message: status.message.unwrap_or_default() }
            }
            (None, None) if status.step.is_none() => Standing::Idle,
            _ => return Err(HostileReport::NoPlan),
        };
        Ok(Self {
            standing,
            applied: status.applied,
            outputs: status.outputs,
            probes: status.probes,
            periodic: status.periodic,
            drift: status.drift,
            facts: status.facts,
            ledger: status.ledger,
            plan_key: status.plan_key,
            problem: status.problem,
            agent_version: status.agent_version,
            capabilities: status.capabilities,
            agent_program: status.agent_program,
            last_updated: status.last_updated,
        })
    }
}

/// At most so many characters; nothing rather than an empty text.
fn text(text: Option<String>, most: usize) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(|text| match text.char_indices().nth(most) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    })
}

fn capabilities(reported: ReportedCapabilities) -> ReportedCapabilities {
    let names =
        reported.names.into_iter().filter(|name| name.chars().count() <= limits::CAPABILITY_CHARACTERS);
    ReportedCapabilities {
        agent_version: text(Some(reported.agent_version), 64).unwrap_or_default(),
        names: names.take(limits::CAPABILITIES).collect(),
    }
}

fn program(program: ReportedProgram) -> ReportedProgram {
    let rejected = program.rejected.map(|rejected| RejectedProgram {
        message: text(Some(rejected.message), 1024).unwrap_or_else(|| "it does not work".to_owned()),
        ..rejected
    });
    ReportedProgram { rejected, message: text(program.message, 1024), ..program }
}

fn output(output: StepOutput) -> StepOutput {
    StepOutput { stdout: output.stdout.and_then(excerpt), stderr: output.stderr.and_then(excerpt) }
}

fn excerpt(excerpt: Excerpt) -> Option<Excerpt> {
    let excerpt = Excerpt {
        head: text(excerpt.head, Excerpt::CHARACTERS),
        tail: text(excerpt.tail, Excerpt::CHARACTERS),
        omitted_bytes: excerpt.omitted_bytes.map(|bytes| bytes.min(i64::MAX as u64)),
    };
    (excerpt != Excerpt::default()).then_some(excerpt)
}

/// With the last characters of each text.
fn tail(tail: StepTail) -> StepTail {
    let last = |text| last(text, limits::TAIL_CHARACTERS);
    StepTail { stdout: last(tail.stdout), stderr: last(tail.stderr), ..tail }
}

/// At most so many characters from the end; nothing rather than an empty text.
fn last(text: Option<String>, most: usize) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(|text| {
        let cut = text.char_indices().rev().nth(most - 1).map_or(0, |(at, _)| at);
        text[cut..].to_owned()
    })
}

fn periodic(result: PeriodicResult) -> PeriodicResult {
    PeriodicResult {
        failures: result.failures.min(i32::MAX as u32),
        message: text(result.message, 1024),
        stdout: last(result.stdout, limits::PERIODIC_CHARACTERS),
        stderr: last(result.stderr, limits::PERIODIC_CHARACTERS),
        ..result
    }
}

fn probe(probe: ProbeResult) -> ProbeResult {
    ProbeResult { message: text(probe.message, 1024), ..probe }
}

fn drift(drift: Drift) -> Drift {
    Drift {
        found: text(Some(drift.found), 512).unwrap_or_default(),
        message: text(drift.message, 1024),
        times: drift.times.min(i32::MAX as u32),
        ..drift
    }
}

fn ledger(ledger: Ledger) -> Ledger {
    let items = ledger.items.into_iter().take(limits::LEDGER_ITEMS);
    Ledger {
        total: ledger.total.min(i32::MAX as u32),
        items: items
            .map(|item| LedgerItem { name: text(Some(item.name), 512).unwrap_or_default(), ..item })
            .collect(),
    }
}

fn facts(facts: Facts) -> Facts {
    Facts {
        hostname: text(facts.hostname, 253),
        machine_id: text(facts.machine_id, 64),
        boot_id: text(facts.boot_id, 64),
        os_image: text(facts.os_image, 256),
        kernel_version: text(facts.kernel_version, 256),
        architecture: text(facts.architecture, 32),
        cpus: facts.cpus.map(|cpus| cpus.min(i32::MAX as u32)),
        memory_bytes: facts.memory_bytes.map(|bytes| bytes.min(i64::MAX as u64)),
    }
}
