//! Writes the status of the agent's report: only the newest state, and only if it has changed.

use capstan_agent::pace;
use capstan_plan::Report;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::api::{Api, ApiError, Client};
use crate::backoff::Backoff;
use crate::config::Config;
use crate::enroll::{is_ours, reports};
use crate::say;
use crate::status::Board;

/// How often what is written is compared with what should be: somebody may have taken it away.
const COMPARING: Duration = Duration::from_secs(600);

/// A problem must be gone for so long before that is told: on a disk that is almost full it comes and goes.
const RELIEF: Duration = Duration::from_secs(30);

/// What is ours to write. A request for a credential is written elsewhere, and others may add to what they understand.
const OURS: [&str; 19] = [
    "plan",
    "phase",
    "step",
    "applied",
    "message",
    "output",
    "attempts",
    "outputs",
    "probes",
    "periodic",
    "drift",
    "facts",
    "ledger",
    "planKey",
    "problem",
    "agentVersion",
    "capabilities",
    "agentProgram",
    "lastUpdated",
];

pub(super) async fn run(
    client: &Client,
    config: &Config,
    mut receiver: watch::Receiver<Report>,
    board: &Board,
) {
    let path = format!("{}/{}", reports(config), config.machine());
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
    // What the management plane has, as far as we know.
    let mut known: Option<Value> = None;
    let mut written = None;
    let mut had_problem = false;
    receiver.mark_changed();
    loop {
        tokio::select! {
            changed = receiver.changed() => if changed.is_err() { return },
            () = sleep_until(Instant::now() + COMPARING) => known = None,
        }
        pace::until_due(&mut receiver, written).await;
        if had_problem {
            until_problem_or(Instant::now() + RELIEF, &mut receiver).await;
        }
        loop {
            let report = receiver.borrow_and_update().clone();
            match write(&client.api(), &path, config, &report, &mut known).await {
                Ok(()) => {
                    board.note(|status| &mut status.report, Ok(()));
                    backoff.succeeded();
                    written = Some(Instant::now());
                    had_problem = report.problem.is_some();
                    break;
                }
                Err(why) => {
                    board.note(|status| &mut status.report, Err(why.clone()));
                    say!("the report waits: {why}");
                    // It may not be what we believe it is.
                    known = None;
                    sleep(backoff.next()).await;
                }
            }
        }
    }
}

/// Waits until there is a problem in the report, but no longer than `until`.
async fn until_problem_or(until: Instant, receiver: &mut watch::Receiver<Report>) {
    while receiver.borrow().problem.is_none() {
        tokio::select! {
            () = sleep_until(until) => return,
            changed = receiver.changed() => if changed.is_err() { return },
        }
    }
}

async fn write(
    api: &Api,
    path: &str,
    config: &Config,
    report: &Report,
    known: &mut Option<Value>,
) -> Result<(), String> {
    let words = |error: ApiError| error.to_string();
    let before = match known.take() {
        Some(status) => status,
        None => {
            let found = api.get(path).await.map_err(words)?;
            if !is_ours(&found, config) {
                return Err("there is a report of this name, and it is another machine's".to_owned());
            }
            status(found)
        }
    };
    let after = serde_json::to_value(report).map_err(|error| error.to_string())?;
    let Some(change) = change(&before, &after) else {
        *known = Some(before);
        return Ok(());
    };
    let patch = json!({"status": change});
    *known = Some(status(api.merge(&format!("{path}/status"), &patch).await.map_err(words)?));
    Ok(())
}

fn status(mut report: Value) -> Value {
    match report["status"].take() {
        Value::Null => json!({}),
        status => status,
    }
}

/// The patch that makes what is ours of `before` what `after` says; nothing if only the time differs.
///
/// An agent that has just started has not looked at its journal: it does not take back what it said before. The planner would
/// take a machine that has applied its plan for one that is about to.
fn change(before: &Value, after: &Value) -> Option<Value> {
    let mut change = Map::new();
    let is_complete = !after["lastUpdated"].is_null();
    let is_known = |field: &str| is_complete || field == "problem" || !after[field].is_null();
    for field in OURS.into_iter().filter(|field| is_known(field)) {
        if let Some(new) = difference(&before[field], &after[field]) {
            change.insert(field.to_owned(), new);
        }
    }
    change.keys().any(|field| field != "lastUpdated").then(|| Value::Object(change))
}

/// The merge patch from one value to another. `null` stands for nothing on both sides.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        _ if before == after => None,
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in new {
                if let Some(difference) = difference(&before[key], value) {
                    patch.insert(key.clone(), difference);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => Some(after.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_and_has_changed_is_written() {
        let before = json!({
            "phase": "Applying", "step": {"name": "a", "index": 1, "exitCode": 1}, "message": "old",
            "probes": [{"name": "p", "healthy": true}], "credentialRequest": {"nonce": "1"}, "lastUpdated": "1",
        });
        let after = json!({
            "phase": "Applied", "step": {"name": "a", "index": 2}, "probes": [{"name": "p", "healthy": true}],
            "lastUpdated": "2",
        });
        assert_eq!(
            change(&before, &after),
            Some(json!({
                "phase": "Applied", "step": {"index": 2, "exitCode": null}, "message": null, "lastUpdated": "2",
            }))
        );
        let later = json!({"phase": "Applied", "lastUpdated": "3"});
        assert_eq!(
            change(
                &json!({"phase": "Applied", "lastUpdated": "2", "credentialRequest": {"nonce": "1"}}),
                &later
            ),
            None
        );
        assert_eq!(change(&json!({}), &json!({"phase": "Applied"})), Some(json!({"phase": "Applied"})));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_problem_is_reported_when_it_lasts() {
        let problem = |text: &str| Report { problem: Some(text.to_owned()), ..Report::default() };
        let (sender, mut receiver) = watch::channel(Report::default());
        let began = Instant::now();
        until_problem_or(began + RELIEF, &mut receiver).await;
        assert_eq!(began.elapsed(), RELIEF);
        sender.send_replace(problem("again"));
        until_problem_or(Instant::now() + RELIEF, &mut receiver).await;
        assert_eq!(began.elapsed(), RELIEF, "a problem is told at once");
    }

    #[test]
    fn a_start_takes_nothing_back() {
        let applied =
            json!({"plan": {"revision": 7}, "phase": "Applied", "agentVersion": "1", "lastUpdated": "1"});
        assert_eq!(change(&applied, &json!({"agentVersion": "1"})), None);
        assert_eq!(change(&applied, &json!({"agentVersion": "2"})), Some(json!({"agentVersion": "2"})));
        // The journal cannot be opened, and then it can.
        let full = json!({"agentVersion": "1", "problem": "the disk is full"});
        assert_eq!(change(&applied, &full), Some(json!({"problem": "the disk is full"})));
        assert_eq!(change(&full, &json!({"agentVersion": "1"})), Some(json!({"problem": null})));
    }
}
