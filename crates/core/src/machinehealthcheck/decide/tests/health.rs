//! Single Machines, as tables.

use super::*;
use crate::machineset::fixtures::machine;
use serde_json::json;

fn cluster(infrastructure: i64, control_plane: Option<i64>) -> Cluster {
    let condition = |type_: &str, second: i64| {
        let time = Timestamp::from_second(second).expect("a time").to_string();
        json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time})
    };
    let mut conditions = vec![condition("InfrastructureReady", infrastructure)];
    conditions.extend(control_plane.map(|second| condition("ControlPlaneInitialized", second)));
    serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {}, "status": {"conditions": conditions},
    }))
    .expect("a Cluster")
}

fn node(ready: &str, since: i64) -> Node {
    let time = Timestamp::from_second(since).expect("a time").to_string();
    serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": [
        {"type": "Ready", "status": ready, "reason": "KubeletDown", "lastTransitionTime": time}]}}))
    .expect("a Node")
}

fn checks() -> MachineHealthCheckChecks {
    serde_json::from_value(json!({
        "nodeStartupTimeoutSeconds": 600,
        "unhealthyNodeConditions": [
            {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300},
            {"type": "Ready", "status": "False", "timeoutSeconds": 300},
        ],
        "unhealthyMachineConditions": [{"type": "Disk", "status": "False", "timeoutSeconds": 100}],
    }))
    .expect("checks")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn unhealthy(reason: &'static str, problems: &[&str]) -> Health {
    let lines: Vec<String> = problems.iter().map(|problem| format!("  * {problem}")).collect();
    Health::Unhealthy { reason, message: format!("Health check failed:\n{}", lines.join("\n")) }
}

fn waiting(seconds: u64) -> Health {
    Health::Waiting(Some(Duration::from_secs(seconds)))
}

#[test]
fn nodes_are_judged_by_how_long_it_lasts() {
    let cluster = cluster(0, Some(0));
    let lasting =
        "Condition Ready on Node is reporting status Unknown with reason KubeletDown for more than 5m0s";
    for (ready, since, now, expected) in [
        ("True", 0, 9999, Health::Healthy),
        ("Unknown", 1000, 1100, waiting(201)),
        ("Unknown", 1000, 1300, waiting(1)),
        ("Unknown", 1000, 1301, unhealthy(reasons::UNHEALTHY_NODE, &[lasting])),
    ] {
        let node = node(ready, since);
        let machine = machine("m").with_node().done();
        let found = check(&cluster, &machine, &NodeSeen::There(&node), &checks(), at(now));
        assert_eq!(found, expected, "{ready} {since} {now}");
    }
    let deleting = machine("m").with_node().deleting().done();
    let node = node("True", 0);
    let found = check(&cluster, &deleting, &NodeSeen::There(&node), &checks(), at(1));
    assert_eq!(found, Health::Waiting(None));
}

#[test]
fn a_node_must_appear_in_time() {
    let late = |seconds| {
        unhealthy(reasons::NODE_STARTUP_TIMEOUT, &[&format!("Node failed to report startup in {seconds}")])
    };
    for (infrastructure, control_plane, created, now, expected) in [
        (0, 0, 0, 600, waiting(1)),
        (0, 0, 0, 601, late("10m0s")),
        // The clock starts with the last thing it had to wait for.
        (500, 0, 0, 601, waiting(500)),
        (0, 500, 0, 601, waiting(500)),
        (0, 0, 500, 601, waiting(500)),
    ] {
        let cluster = cluster(infrastructure, Some(control_plane));
        let machine = machine("m").created(created).done();
        let found = check(&cluster, &machine, &NodeSeen::None, &checks(), at(now));
        assert_eq!(found, expected, "{infrastructure} {control_plane} {created} {now}");
    }
    let off = MachineHealthCheckChecks { node_startup_timeout_seconds: Some(0), ..checks() };
    let found = check(&cluster(0, Some(0)), &machine("m").done(), &NodeSeen::None, &off, at(99_999));
    assert_eq!(found, Health::Waiting(None));
}

#[test]
fn a_node_that_is_gone_is_unhealthy_at_once() {
    let machine = machine("m").with_node().done();
    let found = check(&cluster(0, Some(0)), &machine, &NodeSeen::Gone("n"), &checks(), at(1));
    assert_eq!(found, unhealthy(reasons::NODE_DELETED, &["Node n has been deleted"]));
}

#[test]
fn machine_conditions_come_first_and_all_problems_are_reported() {
    let machine = machine("m").with_node().condition_since("Disk", false, "Full", 0).done();
    let disk = "Condition Disk on Machine is reporting status False with reason Full for more than 1m40s";
    let gone = "Node n has been deleted";
    let found = check(&cluster(0, Some(0)), &machine, &NodeSeen::Gone("n"), &checks(), at(500));
    assert_eq!(found, unhealthy(reasons::UNHEALTHY_MACHINE, &[disk, gone]));
}

#[test]
fn nobody_is_blamed_before_the_cluster_stands() {
    let none = NodeSeen::None;
    let worker = machine("m").done();
    let control_plane = machine("m")
        .change(|machine| {
            machine
                .metadata
                .labels
                .get_or_insert_default()
                .insert(labels::CONTROL_PLANE.into(), String::new());
        })
        .done();
    let not_initialized = cluster(0, None);
    assert_eq!(check(&not_initialized, &worker, &none, &checks(), at(9999)), Health::Waiting(None));
    assert!(matches!(
        check(&not_initialized, &control_plane, &none, &checks(), at(9999)),
        Health::Unhealthy { .. }
    ));
    let marked = machine("m").annotated(annotations::REMEDIATE_MACHINE).done();
    assert_eq!(
        check(&not_initialized, &marked, &none, &checks(), at(0)),
        Health::Unhealthy {
            reason: reasons::HAS_REMEDIATE_ANNOTATION,
            message: "Health check failed: marked for remediation via cluster.x-k8s.io/remediate-machine annotation"
                .into(),
        }
    );
}

#[test]
fn times_are_spelt_as_ever() {
    for (seconds, text) in [(0, "0s"), (30, "30s"), (300, "5m0s"), (3600, "1h0m0s"), (3661, "1h1m1s")] {
        assert_eq!(spelt(seconds), text);
    }
}

/// A restart of the manager, or a new kubeconfig, leaves the Nodes unknown for a while. That says nothing about a machine,
/// however old it is and whether it has ever had a Node.
#[test]
fn an_unknown_node_is_neither_late_nor_gone() {
    let cluster = cluster(0, Some(0));
    let unknown = NodeSeen::Unknown("the Nodes have not been listed yet");
    for machine in [machine("m").done(), machine("m").with_node().done()] {
        let found = check(&cluster, &machine, &unknown, &checks(), at(99_999));
        assert_eq!(found, Health::Waiting(None));
    }
    // What the Machine says of itself is known.
    let machine = machine("m").with_node().condition_since("Disk", false, "Full", 0).done();
    let found = check(&cluster, &machine, &unknown, &checks(), at(101));
    assert!(matches!(found, Health::Unhealthy { reason: reasons::UNHEALTHY_MACHINE, .. }), "{found:?}");
}

#[test]
fn an_old_finding_is_compared_with_the_node_as_it_is_now() {
    let (ready, lost) = (node("True", 0), node("Unknown", 0));
    let not_ready =
        "  * Condition Ready on Node is reporting status Unknown with reason X for more than 5m0s";
    for (reason, message, node, expected) in [
        (reasons::UNHEALTHY_NODE, not_ready, Some(&ready), false),
        (reasons::UNHEALTHY_NODE, not_ready, Some(&lost), true),
        (reasons::UNHEALTHY_NODE, not_ready, None, true),
        (reasons::UNHEALTHY_NODE, "  * Condition Disk on Node is reporting status True", Some(&ready), true),
        (reasons::NODE_STARTUP_TIMEOUT, "", Some(&lost), false),
        (reasons::NODE_STARTUP_TIMEOUT, "", None, true),
        (reasons::NODE_DELETED, "", Some(&ready), false),
        (reasons::NODE_DELETED, "", None, true),
        (reasons::UNHEALTHY_MACHINE, "", Some(&ready), true),
        (reasons::HAS_REMEDIATE_ANNOTATION, "", Some(&ready), true),
    ] {
        assert_eq!(still_holds(reason, message, node), expected, "{reason} {message}");
    }
}
