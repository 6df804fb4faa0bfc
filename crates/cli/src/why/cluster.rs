//! `capstan why NAME`: the chain from the cluster to the object that waits.

use capstan_api::wait::{Owner, Wait};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write as _;

use super::handoffs::{HandOff, World, handoffs, waiting};
use super::{last_lines, rollout};
use crate::describe;
use crate::terminal::{Color, Look, harmless};

/// The chain from the cluster down, for people: every object that is not ready; the last one is the one that waits.
pub(super) fn text(snapshot: &describe::Snapshot, now: Timestamp, look: Look) -> String {
    let chain = describe::waiting(snapshot);
    let rollouts = rollout::render(&rollout::rollouts(snapshot, now), now, look);
    let Some(last) = chain.last() else {
        return match rollouts.is_empty() {
            true => look.paint(Color::Green, "Nothing waits: the cluster is available.") + "\n",
            false => {
                format!("{rollouts}\n{}\n", look.paint(Color::Green, "The cluster is available meanwhile."))
            }
        };
    };
    let mut text = String::new();
    for (depth, line) in chain.iter().enumerate() {
        let Some(state) = &line.state else { continue };
        let since =
            state.since.map(|since| format!(", for {}", describe::age(since, now))).unwrap_or_default();
        let indent = "  ".repeat(depth);
        let color = if state.status == "False" { Color::Red } else { Color::Yellow };
        // Writing to a String cannot fail.
        _ = writeln!(
            text,
            "{indent}{}: {} is {} ({}{since})",
            line.name,
            state.condition,
            look.paint(color, &state.status),
            state.reason
        );
        for message in harmless(&state.message).lines() {
            _ = writeln!(text, "{indent}    {message}");
        }
    }
    match machine_of(&last.name).and_then(|machine| hand_off(snapshot, machine)) {
        Some(handoff) => {
            let wait = handoff.wait.as_ref();
            let reason = wait.map_or("no condition gives a reason", |wait| &*wait.reason);
            _ = writeln!(text, "\nIt waits for: {} ({reason})", handoff.what);
            text.push_str(&actor(handoff.who.as_deref(), wait));
        }
        None => {
            let wait = last.state.as_ref().and_then(|state| state.wait.as_ref());
            let owner = wait.filter(|wait| wait.owner != Owner::Unknown).map(|wait| wait.owner.to_string());
            if wait.is_some() {
                text.push('\n');
            }
            text.push_str(&actor(owner.as_deref(), wait));
        }
    }
    if let Some(printed) =
        machine_of(&last.name).and_then(|machine| report(snapshot, machine)).and_then(last_lines)
    {
        text.push_str("\nWhat the machine printed last:\n");
        text.push_str(&printed);
    }
    if !rollouts.is_empty() {
        _ = write!(text, "\n{rollouts}");
    }
    text
}

/// The hand-off that a machine waits for.
pub(crate) fn hand_off(snapshot: &describe::Snapshot, machine: &str) -> Option<HandOff> {
    waiting(&handoffs(&World::of_snapshot(snapshot, machine))).cloned()
}

fn actor(owner: Option<&str>, wait: Option<&Wait>) -> String {
    let owner = owner.map(|owner| format!("Who must act: {owner}\n"));
    let next = wait.and_then(|wait| wait.retry_at).map(|at| format!("Next attempt: {at}\n"));
    [owner, next].into_iter().flatten().collect()
}

fn machine_of(line: &str) -> Option<&str> {
    line.strip_prefix("Machine/")
}

fn report<'a>(snapshot: &'a describe::Snapshot, machine: &str) -> Option<&'a Value> {
    snapshot.reports.iter().find(|report| report["metadata"]["name"] == machine)
}

/// The chain from the cluster to the object that waits, as JSON.
pub(super) fn json(snapshot: &describe::Snapshot, now: Timestamp) -> Value {
    let chain: Vec<Value> = describe::waiting(snapshot)
        .into_iter()
        .filter_map(|line| {
            let state = line.state?;
            Some(json!({
                "object": line.name,
                "condition": state.condition,
                "status": state.status,
                "reason": state.reason,
                "message": state.message,
                "since": state.since.map(|since| since.to_string()),
                "owner": state.wait.as_ref().map(|wait| wait.owner),
                "retryAt": state.wait.as_ref().and_then(|wait| wait.retry_at),
            }))
        })
        .collect();
    let rollouts = rollout::rollouts(snapshot, now);
    json!({"cluster": snapshot.cluster["metadata"]["name"], "chain": chain, "rollouts": rollouts})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, name: &str, condition: &str, status: &str, message: &str) -> Value {
        json!({
            "kind": kind, "metadata": {"name": name},
            "status": {"conditions": [{
                "type": condition, "status": status, "reason": "Because", "message": message,
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }]},
        })
    }

    #[test]
    fn the_chain_ends_at_the_one_that_waits() {
        let mut machine = object("Machine", "cp-1", "Ready", "False", "no host is available");
        machine["metadata"]["labels"] = json!({"cluster.x-k8s.io/control-plane": ""});
        let snapshot = describe::Snapshot {
            cluster: object("Cluster", "demo", "Available", "False", "not yet"),
            infrastructure: Some(object("HostCluster", "demo", "Ready", "True", "")),
            control_plane: Some(object("CapstanControlPlane", "cp", "Available", "False", "waits for cp-1")),
            machines: vec![machine],
            reports: vec![
                json!({"metadata": {"name": "cp-1"}, "status": {"output": {"stderr": {"head": "boom"}}}}),
            ],
            ..describe::Snapshot::default()
        };
        let now = Timestamp::from_second(60).expect("a minute is a time");
        let rendered = text(&snapshot, now, Look::default());
        let lines: Vec<&str> = rendered.lines().collect();
        assert_eq!(lines[0], "Cluster/demo: Available is False (Because, for 60s)");
        assert!(lines.iter().any(|line| line.trim() == "no host is available"), "{rendered}");
        assert!(!rendered.contains("HostCluster"), "{rendered}");
        assert!(rendered.ends_with("    boom\n"), "{rendered}");
    }

    #[test]
    fn a_machine_that_waits_is_named_although_the_cluster_is_available() {
        let mut machine = object("Machine", "cp-1", "Ready", "False", "no host is available");
        machine["metadata"]["labels"] = json!({"cluster.x-k8s.io/control-plane": ""});
        let snapshot = describe::Snapshot {
            cluster: object("Cluster", "demo", "Available", "True", ""),
            control_plane: Some(object("CapstanControlPlane", "cp", "Available", "True", "")),
            machines: vec![machine],
            ..describe::Snapshot::default()
        };
        let rendered = text(&snapshot, Timestamp::UNIX_EPOCH, Look::default());
        assert!(
            rendered.starts_with("Machine/cp-1: Ready is False") && rendered.contains("no host is available"),
            "{rendered}"
        );
    }

    #[test]
    fn all_is_well_when_the_cluster_is_available() {
        let cluster = object("Cluster", "demo", "Available", "True", "");
        let snapshot = describe::Snapshot { cluster, ..describe::Snapshot::default() };
        assert_eq!(
            text(&snapshot, Timestamp::UNIX_EPOCH, Look::default()),
            "Nothing waits: the cluster is available.\n"
        );
    }
}
