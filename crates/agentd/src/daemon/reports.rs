//! Writes what the agent has to say into the status of its report: the newest word, never a queue of old ones, and
//! nothing when nothing has changed.

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

/// What is ours to write. A request for a credential is written elsewhere, and others may add to what they understand.
const OURS: [&str; 13] = [
    "plan",
    "phase",
    "step",
    "applied",
    "message",
    "output",
    "attempts",
    "probes",
    "facts",
    "ledger",
    "planKey",
    "agentVersion",
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
    receiver.mark_changed();
    loop {
        tokio::select! {
            changed = receiver.changed() => if changed.is_err() { return },
            () = sleep_until(Instant::now() + COMPARING) => known = None,
        }
        pace::until_due(&mut receiver, written).await;
        loop {
            let report = receiver.borrow_and_update().clone();
            match write(&client.api(), &path, config, &report, &mut known).await {
                Ok(()) => {
                    board.note(|status| &mut status.report, Ok(()));
                    backoff.succeeded();
                    written = Some(Instant::now());
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
fn change(before: &Value, after: &Value) -> Option<Value> {
    let mut change = Map::new();
    for field in OURS {
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
}
