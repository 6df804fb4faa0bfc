//! Converts objects to the texts of pages. Pure.

use capstan_api::wait::{NEGATIVE, Owner, Wait};
use capstan_ui::model::{Age, Condition, ConditionList, Count, Fact, HandOff, Tone, Waiting};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::describe::{self, Line, Snapshot, State};
use crate::why::{self, Stand};

pub(super) fn age(at: Timestamp, now: Timestamp) -> Age {
    Age { at: at.to_string(), text: describe::age(at, now) }
}

pub(super) fn age_of(value: &Value, now: Timestamp) -> Option<Age> {
    let at: Timestamp = value.as_str()?.parse().ok()?;
    Some(age(at, now))
}

pub(super) fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Kind and name.
pub(super) fn title(object: &Value) -> String {
    format!("{} {}", string(&object["kind"]), string(&object["metadata"]["name"]))
}

/// The colour of a condition.
pub(super) fn tone(type_: &str, status: &str) -> Tone {
    let is_negative = NEGATIVE.contains(&type_);
    match (status, is_negative) {
        ("True", false) | ("False", true) | ("Applied", _) => Tone::Good,
        ("Failed" | "Refused", _) => Tone::Bad,
        ("Unknown" | "Applying" | "Waiting", _) => Tone::Waiting,
        ("False", false) | ("True", true) => Tone::Waiting,
        _ => Tone::Neutral,
    }
}

pub(super) fn condition(state: &State, now: Timestamp) -> Condition {
    Condition {
        type_: state.condition.clone(),
        status: state.status.clone(),
        reason: state.reason.clone(),
        message: state.message.clone(),
        since: state.since.map(|since| age(since, now)),
        tone: tone(&state.condition, &state.status),
    }
}

/// All conditions of an object; none if the object does not exist.
pub(super) fn conditions(object: &Value, now: Timestamp) -> Option<ConditionList> {
    let found = object["status"]["conditions"].as_array()?;
    let read = |condition: &Value| {
        let (type_, status) = (string(&condition["type"]), string(&condition["status"]));
        Condition {
            tone: tone(&type_, &status),
            reason: string(&condition["reason"]),
            message: string(&condition["message"]),
            since: age_of(&condition["lastTransitionTime"], now),
            type_,
            status,
        }
    };
    Some(ConditionList { object: title(object), conditions: found.iter().map(read).collect() })
}

/// What a cluster waits for: the hand-off of the machine at the end of the chain, else the condition of its last
/// object.
pub(super) fn cluster_waits(snapshot: &Snapshot, now: Timestamp) -> Option<Waiting> {
    let chain = describe::waiting(snapshot);
    let last = chain.last()?;
    let machine = last.name.strip_prefix("Machine/");
    let waits = machine.and_then(|machine| why::hand_off(snapshot, machine));
    waits.and_then(|waits| handoff(&waits, now).waiting).or_else(|| waiting(last, now))
}

/// What a machine waits for: its deletion, the hand-off that waits, or its turn in a rollout.
pub(super) fn machine_waits(snapshot: &Snapshot, machine: &Value, now: Timestamp) -> Option<Waiting> {
    let conditions = machine["status"]["conditions"].as_array();
    let told = |type_: &str, status: &str| {
        let is_it = |one: &&Value| one["type"] == type_ && one["status"] == status;
        let one = conditions.into_iter().flatten().find(is_it)?;
        Some(Waiting {
            object: format!("Machine/{}", string(&machine["metadata"]["name"])),
            reason: string(&one["reason"]),
            message: string(&one["message"]),
            since: age_of(&one["lastTransitionTime"], now),
            owner: Wait::read_untyped(one).as_ref().map(owner).unwrap_or_default(),
        })
    };
    if machine["metadata"]["deletionTimestamp"].is_string() {
        return told("Deleting", "True");
    }
    let name = machine["metadata"]["name"].as_str().unwrap_or_default();
    let waits = why::hand_off(snapshot, name).and_then(|waits| handoff(&waits, now).waiting);
    waits.or_else(|| told("UpToDate", "False"))
}

/// What a line of the tree waits for.
pub(super) fn waiting(line: &Line, now: Timestamp) -> Option<Waiting> {
    let state = line.state.as_ref()?;
    Some(Waiting {
        object: line.name.clone(),
        reason: state.reason.clone(),
        message: state.message.clone(),
        since: state.since.map(|since| age(since, now)),
        owner: state.wait.as_ref().map(owner).unwrap_or_default(),
    })
}

fn owner(wait: &Wait) -> String {
    if wait.owner == Owner::Unknown { String::new() } else { wait.owner.to_string() }
}

pub(super) fn handoff(handoff: &why::HandOff, now: Timestamp) -> HandOff {
    let state = match handoff.stand {
        Stand::Done => "done",
        Stand::Waiting => "waiting",
        Stand::NotYet => "pending",
    };
    let waiting = (handoff.stand == Stand::Waiting).then(|| Waiting {
        object: handoff.object.clone(),
        reason: handoff.wait.as_ref().map(|wait| wait.reason.to_string()).unwrap_or_default(),
        message: handoff.wait.as_ref().map(|wait| wait.message.clone()).unwrap_or_default(),
        since: handoff.wait.as_ref().and_then(|wait| wait.since).map(|since| age(since, now)),
        owner: handoff.who.clone().unwrap_or_default(),
    });
    HandOff {
        what: handoff.what.to_owned(),
        state: state.to_owned(),
        object: handoff.object.clone(),
        waiting,
    }
}

/// Facts that a machine or host reports.
pub(super) fn facts(facts: &Value) -> Vec<Fact> {
    let memory = facts["memoryBytes"].as_i64().map(|bytes| format!("{} MiB", bytes >> 20));
    let text = |field: &str| facts[field].as_str().map(str::to_owned);
    [
        ("Host name", text("hostname")),
        ("Operating system", text("osImage")),
        ("Kernel", text("kernelVersion")),
        ("Architecture", text("architecture")),
        ("Processors", facts["cpus"].as_i64().map(|cpus| cpus.to_string())),
        ("Memory", memory),
        ("Machine ID", text("machineID")),
        ("Boot ID", text("bootID")),
    ]
    .into_iter()
    .filter_map(|(label, value)| Some(Fact { label: label.to_owned(), value: value? }))
    .collect()
}

/// The number of occurrences of each label.
pub(super) fn counts(labels: impl Iterator<Item = (String, Tone)>) -> Vec<Count> {
    let mut counts: BTreeMap<String, (usize, Tone)> = BTreeMap::new();
    for (label, tone) in labels {
        counts.entry(label).or_insert((0, tone)).0 += 1;
    }
    counts.into_iter().map(|(label, (count, tone))| Count { label, count, tone }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_are_coloured_by_what_they_mean() {
        for (type_, status, expected) in [
            ("Ready", "True", Tone::Good),
            ("Ready", "False", Tone::Waiting),
            ("Ready", "Unknown", Tone::Waiting),
            ("Deleting", "False", Tone::Good),
            ("Deleting", "True", Tone::Waiting),
            ("Plan", "Failed", Tone::Bad),
        ] {
            assert_eq!(tone(type_, status), expected, "{type_} {status}");
        }
    }

    #[test]
    fn an_object_without_a_status_has_no_conditions() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(conditions(&Value::Null, now), None);
        let object = json!({"kind": "Machine", "metadata": {"name": "a"}, "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}});
        let listed = conditions(&object, Timestamp::from_second(60).expect("a time")).expect("conditions");
        assert_eq!(listed.object, "Machine a");
        assert_eq!(listed.conditions[0].since.as_ref().map(|age| age.text.as_str()), Some("60s"));
    }

    #[test]
    fn a_machine_waits_for_a_hand_off_a_rollout_or_its_deletion() {
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "1970-01-01T00:00:00Z"})
        };
        let ready = json!({"kind": "Machine", "metadata": {"name": "a", "labels": {"cluster.x-k8s.io/control-plane": ""}},
            "spec": {"bootstrap": {"dataSecretName": "a"}, "infrastructureRef": {"name": "a"}},
            "status": {"nodeRef": {"name": "a"}, "conditions": [condition("NodeHealthy", "True", "R"),
                condition("Ready", "True", "R"), condition("UpToDate", "False", "NotUpToDate")]}});
        let host = json!({"kind": "HostMachine", "metadata": {"name": "a"}, "status": {
            "initialization": {"provisioned": true}, "conditions": [condition("HostClaimed", "True", "R")]}});
        let unclaimed = json!({"kind": "HostMachine", "metadata": {"name": "a"}, "status": {
            "conditions": [condition("HostClaimed", "False", "NoHostAvailable")]}});
        let mut deleted = ready.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        deleted["status"]["conditions"] = json!([condition("Deleting", "True", "DrainingNode")]);
        for (machine, host, expected) in [
            (&ready, &host, "NotUpToDate"),
            (&ready, &unclaimed, "NoHostAvailable"),
            (&deleted, &host, "DrainingNode"),
        ] {
            let snapshot = Snapshot {
                cluster: json!({"status": {"initialization": {"infrastructureProvisioned": true}}}),
                machines: vec![machine.clone()],
                infrastructure_machines: vec![host.clone()],
                ..Snapshot::default()
            };
            let waits = machine_waits(&snapshot, machine, Timestamp::UNIX_EPOCH).expect("it waits");
            assert_eq!((waits.reason.as_str(), waits.message.as_str()), (expected, "m"));
        }
    }

    #[test]
    fn labels_are_counted_in_order() {
        let labels = ["b", "a", "b"].map(|label| (label.to_owned(), Tone::Neutral));
        let counted: Vec<_> = counts(labels.into_iter()).into_iter().map(|c| (c.label, c.count)).collect();
        assert_eq!(counted, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }
}
