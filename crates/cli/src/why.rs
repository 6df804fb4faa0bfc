//! `capstan why`: follows the chain of hand-offs to the one that waits.

use anyhow::Result;
use jiff::Timestamp;
use kube::Client;
use std::fmt::Write as _;
use std::io::Write as _;

use crate::describe;

pub(crate) async fn run(client: Client, namespace: &str, name: &str) -> Result<()> {
    let snapshot = describe::read(client, namespace, name).await?;
    let text = explain(&snapshot, Timestamp::now());
    std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

/// From the cluster down: every object on the way that is not well, the last one being the one that waits.
fn explain(snapshot: &describe::Snapshot, now: Timestamp) -> String {
    let chain = describe::waiting(snapshot);
    let Some(last) = chain.last() else {
        return "Nothing waits: the cluster is available.\n".to_owned();
    };
    let mut text = String::new();
    for (depth, line) in chain.iter().enumerate() {
        let Some(state) = &line.state else { continue };
        let since =
            state.since.map(|since| format!(", for {}", describe::age(since, now))).unwrap_or_default();
        let indent = "  ".repeat(depth);
        // Writing to a String cannot fail.
        _ = writeln!(
            text,
            "{indent}{}: {} is {} ({}{since})",
            line.name, state.condition, state.status, state.reason
        );
        for message in state.message.lines() {
            _ = writeln!(text, "{indent}    {message}");
        }
    }
    if let Some(printed) = machine_of(&last.name).and_then(|machine| last_lines(snapshot, machine)) {
        text.push_str("\nWhat the machine printed last:\n");
        text.push_str(&printed);
    }
    text
}

fn machine_of(line: &str) -> Option<&str> {
    line.strip_prefix("Machine/")
}

/// The end of what the step that failed or runs has printed on that machine.
fn last_lines(snapshot: &describe::Snapshot, machine: &str) -> Option<String> {
    let report = snapshot.reports.iter().find(|report| report["metadata"]["name"] == machine)?;
    let output = &report["status"]["output"];
    let part = |stream: &str| {
        let excerpt = &output[stream];
        excerpt["tail"].as_str().or_else(|| excerpt["head"].as_str()).map(str::to_owned)
    };
    let text: String = ["stdout", "stderr"].into_iter().filter_map(part).collect();
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}\n")).collect();
    (!lines.is_empty()).then(|| lines[lines.len().saturating_sub(10)..].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
        let text = explain(&snapshot, now);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Cluster/demo: Available is False (Because, for 60s)");
        assert!(lines.iter().any(|line| line.trim() == "no host is available"), "{text}");
        assert!(!text.contains("HostCluster"), "{text}");
        assert!(text.ends_with("    boom\n"), "{text}");
    }

    #[test]
    fn all_is_well_when_the_cluster_is_available() {
        let cluster = object("Cluster", "demo", "Available", "True", "");
        let snapshot = describe::Snapshot { cluster, ..describe::Snapshot::default() };
        assert_eq!(explain(&snapshot, Timestamp::UNIX_EPOCH), "Nothing waits: the cluster is available.\n");
    }
}
