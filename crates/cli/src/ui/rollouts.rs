//! Rollouts of a cluster: the one in progress with the turns of its machines, and the last change of each machine.
//!
//! A change is known from the record that the planner keeps in an annotation of the Secret with the plan. Only the metadata
//! of Secrets is read here.

use capstan_api::meta::labels::CLUSTER_NAME;
use capstan_controller::names::label_value;
use capstan_planner::plans::{RECORD_ANNOTATION, Record};
use capstan_ui::model::{Age, MachineChange, Revision, Rollout, RolloutMachineRow, Tone};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use std::collections::BTreeMap;

use super::machine::change_of;
use super::text::{age, age_of, string};
use crate::describe::Snapshot;
use crate::why;

/// Changes that a page shows of one object.
const CHANGES: usize = 50;
const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
const DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// Records of the plans of a cluster, by the name of the Machine.
pub(super) type Records = BTreeMap<String, Record>;

/// The records of all plans of a cluster; none without the right to list Secrets.
pub(super) async fn records(client: &Client, namespace: &str, cluster: &str) -> Records {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let of_cluster = ListParams::default().labels(&format!("{CLUSTER_NAME}={}", label_value(cluster)));
    let Ok(secrets) = secrets.list_metadata(&of_cluster).await else { return Records::new() };
    let record = |secret: &kube::core::PartialObjectMeta<Secret>| {
        let name = secret.name_any();
        let record = secret.annotations().get(RECORD_ANNOTATION)?;
        Some((name.strip_suffix("-plan")?.to_owned(), serde_json::from_str(record).ok()?))
    };
    secrets.items.iter().filter_map(record).collect()
}

/// The rollouts of the control plane and of each MachineDeployment.
pub(super) fn rollouts(snapshot: &Snapshot, records: &Records, now: Timestamp) -> Vec<Rollout> {
    let in_progress = why::rollouts(snapshot, now);
    let rollout = |owner: &Value, machines: Vec<&Value>, revisions: Vec<Revision>| {
        let object = format!("{}/{}", string(&owner["kind"]), string(&owner["metadata"]["name"]));
        let mut changes = changes(snapshot, &machines, records, now);
        let changes_more = changes.len().saturating_sub(CHANGES);
        changes.truncate(CHANGES);
        let progress = in_progress.iter().find(|rollout| rollout.object == object);
        Rollout {
            progress: progress.map(why::Rollout::progress).unwrap_or_default(),
            since: progress.and_then(|rollout| rollout.since).map(|since| age(since, now)),
            waits: progress.and_then(|rollout| rollout.waits.clone()).unwrap_or_default(),
            turns: progress
                .into_iter()
                .flat_map(|rollout| &rollout.turns)
                .map(|it| machine_row(it, now))
                .collect(),
            object,
            changes,
            changes_more,
            revisions,
        }
    };
    let control_plane = snapshot.control_plane.iter().map(|owner| {
        let is_server = |machine: &&Value| !machine["metadata"]["labels"][CONTROL_PLANE].is_null();
        rollout(owner, snapshot.machines.iter().filter(is_server).collect(), Vec::new())
    });
    let deployments = snapshot.deployments.iter().map(|owner| {
        let is_its = |machine: &&Value| is_of(machine, owner);
        let machines = snapshot.machines.iter().filter(is_its).collect();
        rollout(owner, machines, revisions(snapshot, owner, now))
    });
    control_plane.chain(deployments).collect()
}

fn is_of(object: &Value, deployment: &Value) -> bool {
    object["metadata"]["labels"][DEPLOYMENT] == deployment["metadata"]["name"]
}

fn machine_row(turn: &why::RolloutMachine, now: Timestamp) -> RolloutMachineRow {
    RolloutMachineRow {
        machine: turn.machine.clone(),
        turn: turn.turn.name().to_owned(),
        doing: turn.doing.clone(),
        since: turn.since.map(|since| age(since, now)),
        tone: match turn.turn {
            why::RolloutPosition::Failed => Tone::Bad,
            why::RolloutPosition::Now => Tone::Waiting,
            why::RolloutPosition::Next | why::RolloutPosition::Later | why::RolloutPosition::Held => {
                Tone::Neutral
            }
        },
    }
}

/// The last change of each machine that has a plan, the newest first.
fn changes(
    snapshot: &Snapshot,
    machines: &[&Value],
    records: &Records,
    now: Timestamp,
) -> Vec<MachineChange> {
    let mut found: Vec<(Option<Timestamp>, MachineChange)> = Vec::new();
    for machine in machines {
        let name = string(&machine["metadata"]["name"]);
        let Some(record) = records.get(&name) else { continue };
        let is_its = |report: &&Value| report["metadata"]["name"] == machine["metadata"]["name"];
        let report = snapshot.reports.iter().find(is_its).map_or(&Value::Null, |report| &report["status"]);
        let (state, tone, ended) = progress(record, report, now);
        let change = MachineChange {
            machine: name,
            change: change_of(record),
            written: record.written.map(|written| age(written, now)),
            state,
            ended,
            tone,
        };
        found.push((record.written, change));
    }
    found.sort_by(|(at, one), (of, other)| of.cmp(at).then_with(|| one.machine.cmp(&other.machine)));
    found.into_iter().map(|(_, change)| change).collect()
}

/// How far the agent is with the plan of a record, and when its last step ended.
fn progress(record: &Record, report: &Value, now: Timestamp) -> (String, Tone, Option<Age>) {
    let step = &report["step"];
    let began: Option<Timestamp> = step["started"].as_str().and_then(|text| text.parse().ok());
    // What is reported is about an earlier plan.
    let is_earlier = match (record.written, began) {
        (Some(written), Some(began)) => began.as_second() < written.as_second(),
        _ => false,
    };
    let place = || format!("step {} of {}, {}", step["index"], step["total"], string(&step["name"]));
    let (state, tone) = match report["phase"].as_str() {
        _ if is_earlier => return ("not started".to_owned(), Tone::Waiting, None),
        Some("Applied") => ("applied".to_owned(), Tone::Good),
        Some(phase @ ("Applying" | "Waiting")) => {
            (format!("{} at {}", phase.to_lowercase(), place()), Tone::Waiting)
        }
        Some("Failed") => (format!("failed at {}", place()), Tone::Bad),
        Some("Refused") => ("rejected by the agent".to_owned(), Tone::Bad),
        _ => return ("not started".to_owned(), Tone::Waiting, None),
    };
    let ended = if tone == Tone::Waiting { None } else { age_of(&step["finished"], now) };
    (state, tone, ended)
}

/// The revisions of a MachineDeployment, the newest first.
fn revisions(snapshot: &Snapshot, deployment: &Value, now: Timestamp) -> Vec<Revision> {
    let number = |object: &Value| -> Option<i64> {
        object["metadata"]["annotations"][REVISION].as_str().and_then(|text| text.parse().ok())
    };
    let current = number(deployment);
    let revision = |set: &Value| Revision {
        number: number(set).unwrap_or(0),
        set: string(&set["metadata"]["name"]),
        version: string(&set["spec"]["template"]["spec"]["version"]),
        created: age_of(&set["metadata"]["creationTimestamp"], now),
        replicas: set["status"]["replicas"].as_i64().and_then(|count| i32::try_from(count).ok()).unwrap_or(0),
        current: number(set).is_some() && number(set) == current,
    };
    let sets = snapshot.machine_sets.iter().filter(|set| is_of(set, deployment));
    let mut revisions: Vec<Revision> = sets.map(revision).collect();
    revisions.sort_by_key(|revision| std::cmp::Reverse(revision.number));
    revisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn record(ran: &str, written: i64) -> Record {
        let setup = |version: &str| json!({"version": version, "restart": version, "drain": version});
        let record = json!({"setup": setup("v2"), "ran": setup(ran), "attempt": 1, "written": at(written)});
        serde_json::from_value(record).expect("a record")
    }

    #[test]
    fn revisions_are_listed_newest_first() {
        let set = |name: &str, revision: &str| {
            json!({"kind": "MachineSet", "metadata": {"name": name,
                "labels": {"cluster.x-k8s.io/deployment-name": "md"}, "annotations": {REVISION: revision}}})
        };
        let deployment =
            json!({"kind": "MachineDeployment", "metadata": {"name": "md", "annotations": {REVISION: "2"}}});
        let snapshot = Snapshot {
            deployments: vec![deployment],
            machine_sets: vec![set("old", "1"), set("new", "2")],
            ..Snapshot::default()
        };
        let listed = rollouts(&snapshot, &Records::new(), Timestamp::UNIX_EPOCH);
        let revisions: Vec<_> =
            listed[0].revisions.iter().map(|revision| (revision.set.as_str(), revision.current)).collect();
        assert_eq!(revisions, [("new", true), ("old", false)]);
        assert_eq!((listed[0].object.as_str(), listed[0].progress.as_str()), ("MachineDeployment/md", ""));
    }

    #[test]
    fn the_rollout_in_progress_lists_its_machines_and_earlier_changes() {
        let condition = |type_: &str, status: &str, message: &str| {
            json!({"type": type_, "status": status, "reason": "R", "message": message,
                "lastTransitionTime": "1970-01-01T00:00:00Z"})
        };
        let machine = |name: &str, up_to_date: &str| {
            json!({"kind": "Machine", "metadata": {"name": name, "creationTimestamp": format!("1970-01-01T00:00:0{}Z", name.len()),
                "labels": {CONTROL_PLANE: ""}}, "status": {"nodeRef": {"name": name},
                "conditions": [condition("UpToDate", up_to_date, "* version v1, v2 is wanted"), condition("Ready", "True", "")]}})
        };
        let report = |name: &str, phase: &str, step: Value| json!({"metadata": {"name": name}, "status": {"phase": phase, "step": step}});
        let step = |second: i64| json!({"name": "install", "index": 2, "total": 9, "started": at(second), "finished": at(second + 5)});
        let snapshot = Snapshot {
            control_plane: Some(
                json!({"kind": "CapstanControlPlane", "metadata": {"name": "cp"}, "spec": {"version": "v2"},
                "status": {"conditions": [condition("RollingOut", "True", "Rolling out")]}}),
            ),
            machines: vec![machine("a", "True"), machine("bb", "False"), machine("ccc", "False")],
            reports: vec![
                report("a", "Applied", step(100)),
                report("bb", "Applying", step(200)),
                report("ccc", "Applied", step(50)),
            ],
            ..Snapshot::default()
        };
        let records: Records = [("a", 90), ("bb", 190), ("ccc", 195), ("stranger", 300)]
            .map(|(name, written)| (name.to_owned(), record("v1", written)))
            .into();
        let listed = rollouts(&snapshot, &records, at(260));
        let rollout = &listed[0];
        assert_eq!(rollout.progress, "rolls out v2: 1 of 3 machines are up to date");
        let turns: Vec<_> =
            rollout.turns.iter().map(|turn| (turn.turn.as_str(), turn.machine.as_str())).collect();
        assert_eq!(turns, [("now", "bb"), ("next", "ccc")]);
        let text = |age: &Option<Age>| age.as_ref().map(|age| age.text.clone());
        let changes: Vec<_> = rollout
            .changes
            .iter()
            .map(|it| (it.machine.as_str(), it.state.as_str(), text(&it.written), text(&it.ended)))
            .collect();
        let seconds = |seconds: &str| Some(seconds.to_owned());
        assert_eq!(
            changes,
            [
                ("ccc", "not started", seconds("65s"), None),
                ("bb", "applying at step 2 of 9, install", seconds("70s"), None),
                ("a", "applied", seconds("2m"), seconds("2m")),
            ]
        );
        assert!(rollout.changes.iter().all(|change| change.change == "Kubernetes v1 to v2"));
    }
}
