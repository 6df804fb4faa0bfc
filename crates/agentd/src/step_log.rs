//! `capstan-agent explain --step NAME`: every attempt of a step that the journal has, with its output. Reads only.
//!
//! The journal has all attempts until it grows large. Then the agent replaces it by a snapshot, and archives the attempts. Output is redacted
//! in both.

use capstan_agent::journal::{Entry, History, archived, joined};
use capstan_plan::{Excerpt, StepName};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::paths::Paths;
use crate::{Failure, explain, files, print};

pub(crate) fn run(paths: &Paths, step: &str, is_json: bool) -> Result<(), Failure> {
    let archive = files::read(&paths.state().join("archive")).map_err(Failure::new)?.unwrap_or_default();
    let entries = joined(archived(&archive), explain::entries(paths).map_err(Failure::new)?);
    let attempts = attempts(&entries, step);
    if attempts.is_empty() {
        let known: Vec<String> = steps(&entries).iter().map(ToString::to_string).collect();
        return Err(Failure::new(match known.as_slice() {
            [] => format!("no step {step}: the journal has no step yet"),
            known => format!("no step {step} in the journal; there are {}", known.join(", ")),
        }));
    }
    if is_json {
        return print(&format!("{:#}\n", Value::Array(attempts)));
    }
    print(&words(&attempts))
}

/// The steps that the journal has attempts of.
fn steps(entries: &[Entry]) -> BTreeSet<&StepName> {
    let named = entries.iter().filter_map(|entry| match entry {
        Entry::Began { step, .. } | Entry::Ended { step, .. } => Some(step),
        Entry::Snapshot(history) => last(history).map(|last| &last.step),
        _ => None,
    });
    named.collect()
}

fn last(history: &History) -> Option<&capstan_agent::journal::Attempt> {
    history.current.as_ref()?.last.as_ref()
}

/// The attempts of a step, the oldest first.
fn attempts(entries: &[Entry], wanted: &str) -> Vec<Value> {
    let mut attempts: Vec<Value> = Vec::new();
    let mut revision: Option<u64> = None;
    // An attempt that is open, with the revision in which it has begun.
    let mut began: Option<(Option<u64>, Timestamp)> = None;
    for entry in entries {
        match entry {
            Entry::Accepted { plan, .. } => revision = Some(plan.revision().get()),
            Entry::Began { step, at, .. } if step.as_str() == wanted => {
                if let Some((revision, began)) = began.replace((revision, *at)) {
                    attempts.push(json!({"revision": revision, "began": began, "interrupted": true}));
                }
            }
            Entry::Ended { step, outcome, at, .. } if step.as_str() == wanted => attempts.push(json!({
                "revision": revision, "began": began.take().map(|(_, at)| at), "ended": at, "exitCode": outcome.exit_code,
                "failure": outcome.failure.as_ref().map(|failure| &failure.message), "output": outcome.output,
            })),
            Entry::Snapshot(history) => {
                revision = history.current.as_ref().map(|current| current.plan.revision().get());
                let last = last(history).filter(|last| last.step.as_str() == wanted);
                if let Some(started) = last.filter(|last| last.finished.is_none()).and_then(|last| last.started) {
                    began = began.or(Some((revision, started)));
                }
                let last = last.filter(|last| last.finished.is_some()).map(|last| {
                    let outcome = &last.outcome;
                    json!({
                        "revision": revision, "began": last.started, "ended": last.finished,
                        "exitCode": outcome.exit_code,
                        "failure": outcome.failure.as_ref().map(|failure| &failure.message),
                        "output": outcome.output,
                    })
                });
                // It is archived, too, unless there was no room.
                let is_known = last.is_some() && attempts.last() == last.as_ref();
                attempts.extend(last.filter(|_| !is_known));
            }
            _ => {}
        }
    }
    attempts.extend(began.map(|(revision, began)| json!({"revision": revision, "began": began})));
    attempts
}

/// The same for people.
fn words(attempts: &[Value]) -> String {
    let mut out = String::new();
    for attempt in attempts {
        let text = |field: &str| attempt[field].as_str().unwrap_or("?").to_owned();
        let ending = match (&attempt["failure"], attempt["ended"].is_null(), &attempt["interrupted"]) {
            (Value::String(why), ..) => format!("failed at {}: {why}", text("ended")),
            (_, true, Value::Bool(true)) => "was interrupted".to_owned(),
            (_, true, _) => "has not ended".to_owned(),
            _ => format!("succeeded at {}", text("ended")),
        };
        // Writing to a String cannot fail.
        _ = writeln!(out, "plan {}: began at {}, {ending}", attempt["revision"], text("began"));
        for (name, stream) in
            [("stdout", &attempt["output"]["stdout"]), ("stderr", &attempt["output"]["stderr"])]
        {
            let Ok(excerpt) = serde_json::from_value::<Excerpt>(stream.clone()) else { continue };
            _ = write!(out, "{}", stream_text(name, &excerpt));
        }
    }
    out
}

fn stream_text(name: &str, excerpt: &Excerpt) -> String {
    let mut out = String::new();
    let mut lines = |text: &Option<String>| {
        for line in text.iter().flat_map(|text| text.lines()) {
            _ = writeln!(out, "  {name}: {}", harmless(line));
        }
    };
    lines(&excerpt.head);
    if let Some(omitted) = excerpt.omitted_bytes {
        lines(&Some(format!("... {omitted} bytes are omitted ...")));
    }
    lines(&excerpt.tail);
    out
}

/// Without control characters, which could change what the terminal shows.
fn harmless(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn entry(text: &Value) -> Entry {
        serde_json::from_value(text.clone()).expect("an entry")
    }

    fn journal() -> Vec<Entry> {
        let digest = "a".repeat(64);
        let began = |step: &str, second: i64| {
            entry(&json!({"began": {"step": step, "inputs": digest, "once": false, "at": at(second)}}))
        };
        let ended = |step: &str, outcome: Value, second: i64| {
            entry(&json!({"ended": {"step": step, "inputs": digest, "outcome": outcome, "at": at(second)}}))
        };
        vec![
            began("install", 0),
            ended("install", json!({"exitCode": 0, "output": {"stdout": {"head": "one\n\u{1b}[2Jtwo"}}}), 5),
            began("ready", 6),
            ended(
                "ready",
                json!({"exitCode": 1, "failure": {"class": "transient", "ran": true, "message": "the command exited with 1"},
                "output": {"stderr": {"head": "no", "tail": "answer", "omittedBytes": 7}}}),
                7,
            ),
            began("ready", 8),
            began("ready", 10),
        ]
    }

    #[test]
    fn every_attempt_of_a_step_is_listed_with_its_output() {
        assert_eq!(
            words(&attempts(&journal(), "install")),
            "plan null: began at 1970-01-01T00:00:00Z, succeeded at 1970-01-01T00:00:05Z\n  stdout: one\n  stdout: \u{fffd}[2Jtwo\n"
        );
        assert_eq!(
            words(&attempts(&journal(), "ready")),
            "plan null: began at 1970-01-01T00:00:06Z, failed at 1970-01-01T00:00:07Z: the command exited with 1\n  \
             stderr: no\n  stderr: ... 7 bytes are omitted ...\n  stderr: answer\n\
             plan null: began at 1970-01-01T00:00:08Z, was interrupted\n\
             plan null: began at 1970-01-01T00:00:10Z, has not ended\n"
        );
        assert!(attempts(&journal(), "other").is_empty());
        let known: Vec<String> = steps(&journal()).into_iter().map(ToString::to_string).collect();
        assert_eq!(known, ["install", "ready"]);
    }

    #[test]
    fn a_journal_that_was_written_anew_has_the_last_attempt_and_the_archive_the_others() {
        let history = json!({"current": {
            "plan": {"revision": 3, "digest": "b".repeat(64)}, "done": ["install"], "tries": {}, "stays": [],
            "last": {"step": "install", "number": 2, "started": at(1), "finished": at(2), "outcome": {"exitCode": 0}},
        }});
        let history: Box<History> = serde_json::from_value(history).expect("a history");
        let snapshot = Entry::Snapshot(history);
        let last = "plan 3: began at 1970-01-01T00:00:01Z, succeeded at 1970-01-01T00:00:02Z\n";
        assert_eq!(words(&attempts(std::slice::from_ref(&snapshot), "install")), last);
        let archived = words(&attempts(&journal(), "install"));
        let entries = joined(journal(), vec![snapshot.clone()]);
        assert_eq!(words(&attempts(&entries, "install")), format!("{archived}{last}"));
        assert_eq!(words(&attempts(&entries, "ready")), words(&attempts(&journal(), "ready")));
        // The same attempt is in both.
        let began =
            json!({"began": {"step": "install", "inputs": "a".repeat(64), "once": false, "at": at(1)}});
        let ended = json!({"ended": {"step": "install", "inputs": "a".repeat(64), "outcome": {"exitCode": 0}, "at": at(2)}});
        let accepted = json!({"accepted": {"plan": {"revision": 3, "digest": "b".repeat(64)},
            "machine": {"name": "web-0", "machineID": "1"}, "epoch": 1}});
        let known = vec![entry(&accepted), entry(&began), entry(&ended)];
        assert_eq!(words(&attempts(&joined(known, vec![snapshot]), "install")), last);
    }
}
