//! Tests of all states of a rollout, as a table.

use super::*;
use serde_json::json;

fn condition_of(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
           "lastTransitionTime": "1970-01-01T00:00:30Z"})
}

fn machine(name: &str, labels: &Value, created: &str, conditions: &[Value]) -> Value {
    json!({
        "kind": "Machine",
        "metadata": {"name": name, "labels": labels, "creationTimestamp": created},
        "spec": {"clusterName": "demo", "bootstrap": {}, "infrastructureRef": {"kind": "X", "name": "x", "apiGroup": "x"}},
        "status": {"conditions": conditions, "nodeRef": {"name": name}},
    })
}

fn ready() -> Value {
    condition_of("Ready", "True", "Ready", "")
}

fn outdated() -> Value {
    condition_of(
        "UpToDate",
        "False",
        "NotUpToDate",
        "* spec.version: another version is installed and started",
    )
}

fn current() -> Value {
    condition_of("UpToDate", "True", "UpToDate", "")
}

/// Three servers; what their conditions are is the case's business.
fn snapshot(message: &str, conditions: [&[Value]; 3], reports: &[Value]) -> Snapshot {
    let labels = json!({CONTROL_PLANE: ""});
    let created = ["1970-01-01T00:00:03Z", "1970-01-01T00:00:02Z", "1970-01-01T00:00:01Z"];
    let machines = ["a", "b", "c"].iter().zip(created).zip(conditions);
    Snapshot {
        control_plane: Some(json!({
            "kind": "CapstanControlPlane", "metadata": {"name": "cp"}, "spec": {"version": "v2"},
            "status": {"conditions": [condition_of("RollingOut", "True", "RollingOut", message)]},
        })),
        machines: machines
            .map(|((name, created), conditions)| machine(name, &labels, created, conditions))
            .collect(),
        reports: reports.to_vec(),
        ..Snapshot::default()
    }
}

fn report(name: &str, phase: &str, message: &str) -> Value {
    let step = json!({"name": "install", "index": 3, "total": 9, "started": "1970-01-01T00:00:50Z"});
    json!({"metadata": {"name": name}, "status": {"phase": phase, "message": message, "step": step}})
}

fn rendered(snapshot: &Snapshot) -> String {
    let now = Timestamp::from_second(60).unwrap();
    render(&rollouts(snapshot, now), now, Look::default())
}

const ROLLING: &str = "Rolling out 2 not up-to-date replicas";

#[test]
fn it_says_what_rolls_which_machine_is_next_and_what_the_current_one_does() {
    let servers = [&[ready(), current()][..], &[ready(), outdated()], &[ready(), outdated()]];
    let head = "CapstanControlPlane/cp rolls out v2: 1 of 3 machines are up to date, for 30s\n    \
                change: spec.version: another version is installed and started\n";
    let waiting = format!("{ROLLING}\n* Machine c: waits until etcd has a quorum");
    for (message, report, expected) in [
        // The oldest is next while no agent has been told anything.
        (ROLLING, None, "    next   Machine/c\n    later  Machine/b\n"),
        (
            ROLLING,
            Some(report("c", "Applying", "")),
            "    now    Machine/c carries out step 3 of 9 (install) of its plan (for 10s)\n    next   Machine/b\n",
        ),
        (
            waiting.as_str(),
            Some(report("c", "Waiting", "the gate is closed")),
            "    now    Machine/c waits at step 3 of 9 (install) of its plan: waits until etcd has a quorum (for 10s)\n    \
             next   Machine/b\n",
        ),
        (
            ROLLING,
            Some(report("c", "Waiting", "the gate is closed")),
            "    now    Machine/c waits at step 3 of 9 (install) of its plan, until the control plane lets it go on (for 10s)\n    \
             next   Machine/b\n",
        ),
        (
            ROLLING,
            Some(report("c", "Failed", "exit code 1\x1b[2J")),
            "    failed Machine/c has failed at step 3 of 9 (install) of its plan: exit code 1\u{fffd}[2J (for 10s)\n    \
             next   Machine/b\n",
        ),
        (
            ROLLING,
            Some(json!({"metadata": {"name": "c"}, "status": {"phase": "Applying"}})),
            "    now    Machine/c carries out its plan\n    next   Machine/b\n",
        ),
        (ROLLING, Some(report("c", "Applied", "")), "    next   Machine/c\n    later  Machine/b\n"),
    ] {
        let snapshot = snapshot(message, servers, &Vec::from_iter(report));
        assert_eq!(rendered(&snapshot), format!("{head}{expected}"));
    }
}

#[test]
fn a_machine_that_is_not_ready_yet_is_the_current_one() {
    let unready = condition_of("Ready", "False", "NotReady", "* NodeHealthy: Node is not ready");
    let servers = [&[ready(), outdated()][..], &[ready(), outdated()], &[unready, current()]];
    let text = rendered(&snapshot(ROLLING, servers, &[]));
    assert!(
        text.contains("    now    Machine/c is not ready: NodeHealthy: Node is not ready (for 30s)\n    next   Machine/b\n"),
        "{text}"
    );
}

#[test]
fn a_machine_that_core_updates_in_place_says_what_it_waits_for() {
    for (message, expected) in [
        ("In-place update in progress", "is updated in place (for 30s)"),
        ("In-place update in progress: waits for x", "is updated in place: waits for x (for 30s)"),
        ("asks another extension", "is updated in place: asks another extension (for 30s)"),
    ] {
        let updating = condition_of("Updating", "True", "InPlaceUpdating", message);
        let servers = [&[ready(), outdated(), updating][..], &[ready(), current()], &[ready(), current()]];
        let text = rendered(&snapshot(ROLLING, servers, &[]));
        assert!(text.ends_with(&format!("    now    Machine/a {expected}\n")), "{text}");
    }
}

#[test]
fn machines_that_are_created_deleted_or_held_are_distinguished() {
    let made = condition_of("Ready", "False", "NotReady", "* InfrastructureReady: no host");
    let servers = [&[ready(), outdated()][..], &[ready(), outdated()], &[made, current()]];
    let mut snapshot = snapshot(ROLLING, servers, &[]);
    snapshot.machines[2]["status"]["nodeRef"] = Value::Null;
    snapshot.machines[1]["metadata"]["annotations"] = json!({keep::HOLD: ""});
    snapshot.machines[0]["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:55Z");
    let text = rendered(&snapshot);
    let lines: Vec<&str> = text.lines().skip(2).map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "now    Machine/a is deleted (for 5s)",
            "now    Machine/c is made: InfrastructureReady: no host (for 30s)",
            "held   Machine/b has the annotation capstan.dev/hold",
        ]
    );
}

#[test]
fn what_the_whole_rollout_waits_for_is_said_once() {
    let servers = [&[ready(), current()][..], &[ready(), current()], &[ready(), outdated()]];
    let message = format!("{ROLLING}\n* Machine b is not up: its Node is not Ready\n* Machine c: its turn");
    let text = rendered(&snapshot(&message, servers, &[]));
    assert!(text.contains("\n    waits: Machine b is not up: its Node is not Ready\n"), "{text}");
    assert!(text.contains("next   Machine/c its turn\n"), "{text}");
    let mut held = snapshot("Held: this cannot be done in place", servers, &[]);
    held.control_plane.as_mut().unwrap()["status"]["conditions"][0]["reason"] = json!("RolloutHeld");
    assert!(rendered(&held).contains("\n    waits: this cannot be done in place\n"));
}

#[test]
fn the_next_worker_is_the_one_that_its_machine_set_would_give_away() {
    let labels = |set: &str| json!({DEPLOYMENT: "md", SET: set});
    let set = |name: &str, created: &str, order: &str| {
        json!({"kind": "MachineSet", "metadata": {"name": name, "creationTimestamp": created},
               "spec": {"clusterName": "demo", "selector": {}, "deletion": {"order": order},
                        "template": {"spec": machine("x", &json!({}), created, &[])["spec"]}}})
    };
    let told_by = |order: &str| {
        let workers = [("old", "1970-01-01T00:00:01Z"), ("young", "1970-01-01T00:00:40Z")];
        let machines = workers
            .iter()
            .map(|(name, created)| machine(name, &labels("before"), created, &[ready(), outdated()]));
        let done = machine("done", &labels("after"), "1970-01-01T00:00:01Z", &[ready(), current()]);
        let message = format!("{ROLLING}\n* spec.version: another version is installed and started");
        let deployment = json!({
            "kind": "MachineDeployment", "metadata": {"name": "md"},
            "spec": {"template": {"spec": {"version": "v2"}}},
            "status": {"conditions": [condition_of("RollingOut", "True", "RollingOut", &message)]},
        });
        rendered(&Snapshot {
            deployments: vec![deployment],
            machine_sets: vec![
                set("after", "1970-01-01T00:00:50Z", order),
                set("before", "1970-01-01T00:00:01Z", order),
            ],
            machines: machines.chain([done]).collect(),
            ..Snapshot::default()
        })
    };
    let newest = told_by("Newest");
    assert!(
        newest.starts_with("MachineDeployment/md rolls out v2: 1 of 3 machines are up to date"),
        "{newest}"
    );
    assert!(newest.ends_with("    next   Machine/young\n    later  Machine/old\n"), "{newest}");
    assert!(!newest.contains("waits:"), "{newest}");
    let oldest = told_by("Oldest");
    assert!(oldest.ends_with("    next   Machine/old\n    later  Machine/young\n"), "{oldest}");
}

#[test]
fn a_cluster_without_a_rollout_has_none() {
    let mut snapshot = snapshot(ROLLING, [&[ready(), current()][..], &[ready()], &[]], &[]);
    snapshot.control_plane.as_mut().unwrap()["status"]["conditions"][0]["status"] = json!("False");
    assert!(rollouts(&snapshot, Timestamp::UNIX_EPOCH).is_empty());
}
