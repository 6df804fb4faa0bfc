//! What is written into the Secret. Pure: each function gets the newest data, also after a conflict, and changes only keys
//! of the agent.

use capstan_plan::Digest;
use jiff::Timestamp;

use crate::decide::failures;
use crate::output::{self, Periodics, Saved};
use crate::probe::Statuses;
use crate::secret::{Data, keys, states};
use crate::time;

/// Largest data of a Secret, less some room for keys of others.
const SECRET: usize = 1024 * 1024 - 64 * 1024;

/// Largest size of one recorded output.
const OUTPUT: usize = 256 * 1024;

/// Longest message.
const MESSAGE: usize = 4096;

/// The run of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Checksum of the plan.
    pub checksum: Digest,
    /// `plan-revision` of the run; `None` for a plan without a state.
    pub revision: Option<String>,
}

/// How a run of the one-time instructions ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether all have succeeded.
    pub succeeded: bool,
    /// Their saved output.
    pub saved: Saved,
    /// Why they have not succeeded.
    pub message: String,
    /// When the run began.
    pub began: Timestamp,
}

/// The revision of a run that this data asks for.
pub fn revision(data: &Data) -> Option<String> {
    (!data.state().is_empty()).then(|| data.text(keys::REVISION).to_owned())
}

/// Writes that a run begins. It is written before anything is run. `None`: the plan does not wait for that any more.
pub fn begin(data: &Data, checksum: &Digest) -> Option<Data> {
    if data.checksum().as_ref() != Some(checksum) || data.state() != states::PENDING {
        return None;
    }
    let mut data = data.clone();
    let revision = data.count(keys::REVISION).saturating_add(1);
    data.set(keys::STATE, states::IN_PROGRESS);
    data.set(keys::REVISION, revision.to_string());
    Some(data)
}

/// Writes how a run ended. `None`: the Secret has another plan by now, or asks for another run of this one, so that the
/// result would be taken for that of a plan that was not run.
pub fn end(data: &Data, run: &Run, outcome: &Outcome) -> Option<Data> {
    if data.checksum().as_ref() != Some(&run.checksum) {
        return None;
    }
    let is_current = match &run.revision {
        None if data.state().is_empty() => true,
        None => return None,
        Some(_) if data.state() == states::PENDING => return None,
        Some(revision) => data.text(keys::REVISION) == revision,
    };
    let checksum = run.checksum.to_string();
    if is_reported(data, run, outcome) {
        return Some(data.clone());
    }
    let most = budget(data);
    let mut data = data.clone();
    data.set(keys::LAST_APPLY_TIME, time::format(outcome.began));
    if outcome.succeeded {
        data.set(keys::APPLIED_CHECKSUM, checksum);
        data.set(keys::APPLIED_OUTPUT, output::pack_saved(&outcome.saved, most));
        data.set(keys::FAILURE_COUNT, "0");
        data.set(keys::FAILED_CHECKSUM, "");
        data.set(keys::FAILED_OUTPUT, "");
        data.set(keys::SUCCESS_COUNT, data.count(keys::SUCCESS_COUNT).saturating_add(1).to_string());
        data.empty(keys::MESSAGE);
    } else {
        let failures = failures(&data, &checksum).saturating_add(1);
        if run.revision.is_none() && data.text(keys::APPLIED_CHECKSUM) == checksum {
            // It was applied by an earlier process, and does not apply now.
            data.empty(keys::APPLIED_CHECKSUM);
        }
        data.set(keys::FAILED_CHECKSUM, checksum);
        data.set(keys::FAILED_OUTPUT, output::pack_saved(&outcome.saved, most));
        data.set(keys::FAILURE_COUNT, failures.to_string());
        data.set(keys::SUCCESS_COUNT, "0");
        message(&mut data, &outcome.message);
    }
    if run.revision.is_some() && is_current && data.state() == states::IN_PROGRESS {
        data.set(keys::STATE, if outcome.succeeded { states::SUCCEEDED } else { states::FAILED });
    }
    Some(data)
}

/// Whether it is written already: the answer to the write was lost, or an earlier process has ended after it.
pub fn is_reported(data: &Data, run: &Run, outcome: &Outcome) -> bool {
    let key = if outcome.succeeded { keys::APPLIED_CHECKSUM } else { keys::FAILED_CHECKSUM };
    data.text(key) == run.checksum.to_string()
        && data.text(keys::LAST_APPLY_TIME) == time::format(outcome.began)
        && data.state() != states::IN_PROGRESS
}

/// Writes the results of periodic instructions and probes of a plan. What says the same as before stays. `None`: the
/// Secret has another plan by now.
pub fn observed(data: &Data, checksum: &Digest, periodics: &Periodics, statuses: &Statuses) -> Option<Data> {
    if data.checksum().as_ref() != Some(checksum) {
        return None;
    }
    let mut data = data.clone();
    let before = data.0.get(keys::PERIODIC_OUTPUT).filter(|value| !value.is_empty());
    if before.is_none_or(|before| output::unpack::<Periodics>(before) != *periodics) {
        let packed = output::pack_periodics(periodics, budget(&data));
        // Shortened output differs from the whole, but not from what is written already.
        if data.bytes(keys::PERIODIC_OUTPUT) != packed {
            data.set(keys::PERIODIC_OUTPUT, packed);
        }
    }
    let before = data.0.get(keys::PROBE_STATUSES).map(|value| serde_json::from_slice::<Statuses>(value).ok());
    if before.flatten().as_ref() != Some(statuses) {
        data.set(keys::PROBE_STATUSES, serde_json::to_vec(statuses).unwrap_or_default());
    }
    Some(data)
}

/// Writes why a plan is not applied.
pub fn refused(data: &Data, reason: &str) -> Data {
    let mut data = data.clone();
    message(&mut data, reason);
    data
}

/// Puts back what this process has reported about a plan with a state and that was lost since, such as by a restored
/// backup. Nothing is decided by these keys then.
pub fn restored(data: &Data, run: &Run, reported: &Data) -> Data {
    let mut data = data.clone();
    let is_same = run.revision.as_ref().is_some_and(|revision| data.text(keys::REVISION) == revision);
    if is_same && data.checksum().as_ref() == Some(&run.checksum) {
        for key in EVIDENCE {
            let lost = data.bytes(key).is_empty();
            if let Some(value) = reported.0.get(key).filter(|value| lost && !value.is_empty()) {
                data.set(key, value.clone());
            }
        }
    }
    data
}

const EVIDENCE: [&str; 6] = [
    keys::APPLIED_CHECKSUM,
    keys::APPLIED_OUTPUT,
    keys::FAILED_CHECKSUM,
    keys::FAILED_OUTPUT,
    keys::FAILURE_COUNT,
    keys::LAST_APPLY_TIME,
];

fn message(data: &mut Data, text: &str) {
    let text: String = text.chars().take(MESSAGE).collect();
    if data.text(keys::MESSAGE) != text {
        data.set(keys::MESSAGE, text);
    }
}

/// Room for one output: the orchestrator stores the plan twice, and three outputs are recorded.
fn budget(data: &Data) -> usize {
    let outputs = [keys::APPLIED_OUTPUT, keys::FAILED_OUTPUT, keys::PERIODIC_OUTPUT];
    let others: usize = data
        .0
        .iter()
        .filter(|(key, _)| !outputs.contains(&key.as_str()) && *key != "appliedPlan")
        .map(|(key, value)| key.len() + value.len())
        .sum();
    let used = others + data.bytes(keys::PLAN).len();
    (SECRET.saturating_sub(used) / 3).clamp(1024, OUTPUT)
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
