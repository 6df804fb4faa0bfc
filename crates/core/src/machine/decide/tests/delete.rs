//! The order of a Machine's deletion, as tables.

use capstan_api::core::{Cluster, Machine};
use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::super::super::observe::ControlPlane;
use super::{NodeFate, Progress, Situation, Stage, is_left_unserved, is_node_given_up, node_fate, stage};
use crate::external::Reading;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn machine(annotations: &Value, spec: &Value, status: &Value) -> Machine {
    let mut machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "m", "annotations": annotations, "deletionTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "i", "kind": "I", "name": "i"}},
        "status": status,
    });
    if !spec.is_null() {
        machine["spec"]["deletion"] = spec.clone();
    }
    serde_json::from_value(machine).expect("a Machine")
}

fn object(value: &Value) -> DynamicObject {
    let mut object = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}});
    object.as_object_mut().expect("an object").extend(value.as_object().cloned().unwrap_or_default());
    serde_json::from_value(object).expect("an object")
}

fn alive() -> Reading {
    Reading::Found(Box::new(object(&json!({}))))
}

fn dying() -> Reading {
    let metadata = json!({"metadata": {"name": "x", "deletionTimestamp": "2025-01-01T00:00:00Z"}});
    Reading::Found(Box::new(object(&metadata)))
}

struct Case {
    machine: Machine,
    infrastructure: Reading,
    bootstrap: Reading,
    node: NodeFate,
    progress: Progress,
    is_between_looks: bool,
}

impl Case {
    fn new() -> Self {
        Self {
            machine: machine(&json!({}), &Value::Null, &json!({})),
            infrastructure: alive(),
            bootstrap: alive(),
            node: NodeFate::Goes,
            progress: Progress::default(),
            is_between_looks: false,
        }
    }

    fn stage(&self) -> Stage {
        let Self { machine, infrastructure, bootstrap, .. } = self;
        let Self { node, progress, is_between_looks, .. } = *self;
        stage(&Situation { machine, infrastructure, bootstrap, node, progress, is_between_looks, now: NOW })
    }
}

#[test]
fn one_stage_comes_after_the_other() {
    let (drain, terminate) = (
        "pre-drain.delete.hook.machine.cluster.x-k8s.io/b",
        "pre-terminate.delete.hook.machine.cluster.x-k8s.io",
    );
    let mut case = Case::new();
    case.machine = machine(&json!({drain: "", terminate: ""}), &Value::Null, &json!({}));
    assert_eq!(case.stage(), Stage::PreDrainHooks(vec![drain.to_owned()]));
    case.machine = machine(&json!({terminate: ""}), &Value::Null, &json!({}));
    assert_eq!(case.stage(), Stage::Drain);
    case.progress.drained = true;
    assert_eq!(case.stage(), Stage::VolumeDetach);
    case.progress.detached = true;
    assert_eq!(case.stage(), Stage::PreTerminateHooks(vec![terminate.to_owned()]));
    case.machine = Case::new().machine;
    assert_eq!(case.stage(), Stage::Infrastructure { ask: true });
    case.infrastructure = dying();
    assert_eq!(case.stage(), Stage::Infrastructure { ask: false });
    case.infrastructure = Reading::Missing;
    assert_eq!(case.stage(), Stage::Bootstrap { ask: true });
    case.bootstrap = dying();
    assert_eq!(case.stage(), Stage::Bootstrap { ask: false });
    case.bootstrap = Reading::Missing;
    assert_eq!(case.stage(), Stage::Node);
    case.progress.node_gone = true;
    assert_eq!(case.stage(), Stage::Done);
}

#[test]
fn a_node_that_is_left_is_neither_drained_nor_deleted() {
    let mut case = Case::new();
    case.node = NodeFate::Left;
    case.machine =
        machine(&json!({"pre-drain.delete.hook.machine.cluster.x-k8s.io": ""}), &Value::Null, &json!({}));
    assert_eq!(case.stage(), Stage::Infrastructure { ask: true });
    (case.infrastructure, case.bootstrap) = (Reading::Missing, Reading::Unreferenced);
    assert_eq!(case.stage(), Stage::Done);
}

#[test]
fn nothing_is_deleted_on_a_guess() {
    let mut case = Case::new();
    case.infrastructure = Reading::Unreadable;
    assert_eq!(case.stage(), Stage::Unreadable);
    case.infrastructure = Reading::Missing;
    case.bootstrap = Reading::Unreadable;
    assert_eq!(case.stage(), Stage::Unreadable);
}

#[test]
fn hooks_do_not_begin_before_the_drain_while_it_is_unknown_whether_there_is_a_machine() {
    let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
    let mut case = Case { infrastructure: Reading::Unreadable, ..Case::new() };
    case.machine = machine(&json!({hook: ""}), &Value::Null, &json!({}));
    assert_eq!(case.stage(), Stage::Unreadable);
    let begun = json!({"deletion": {"waitForPreTerminateHookStartTime": "2025-01-01T00:00:00Z"}});
    case.machine = machine(&json!({hook: ""}), &Value::Null, &begun);
    assert_eq!(case.stage(), Stage::PreTerminateHooks(vec![hook.to_owned()]));
    case.machine = machine(&json!({hook: ""}), &Value::Null, &json!({}));
    case.node = NodeFate::Left;
    assert_eq!(case.stage(), Stage::PreTerminateHooks(vec![hook.to_owned()]), "nothing is drained");
}

#[test]
fn a_drain_is_left_out_or_ends() {
    let since = |seconds| json!((NOW - SignedDuration::from_secs(seconds)).to_string());
    let started = |seconds| json!({"deletion": {"nodeDrainStartTime": since(seconds)}});
    let timeout = json!({"nodeDrainTimeoutSeconds": 60});
    for (annotations, spec, status, drains) in [
        (json!({}), Value::Null, json!({}), true),
        (json!({"machine.cluster.x-k8s.io/exclude-node-draining": ""}), Value::Null, json!({}), false),
        (json!({}), timeout.clone(), json!({}), true),
        (json!({}), timeout.clone(), started(59), true),
        (json!({}), timeout, started(60), false),
        (json!({}), json!({"nodeDrainTimeoutSeconds": 0}), started(600), true),
        (json!({}), Value::Null, json!({"deletion": {"waitForPreTerminateHookStartTime": since(1)}}), false),
    ] {
        let mut case = Case::new();
        case.machine = machine(&annotations, &spec, &status);
        assert_eq!(case.stage() == Stage::Drain, drains, "{annotations} {spec} {status}");
    }
    for infrastructure in [dying(), Reading::Missing] {
        let case = Case { infrastructure, ..Case::new() };
        assert_ne!(case.stage(), Stage::Drain, "there is no machine to drain");
    }
}

#[test]
fn volumes_are_waited_for_unless_that_is_left_out_or_over() {
    let since = |seconds| json!((NOW - SignedDuration::from_secs(seconds)).to_string());
    let started = |seconds| json!({"deletion": {"waitForNodeVolumeDetachStartTime": since(seconds)}});
    let timeout = json!({"nodeVolumeDetachTimeoutSeconds": 60});
    let excluded = json!({"machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach": ""});
    let terminating = json!({"deletion": {"waitForPreTerminateHookStartTime": since(1)}});
    for (annotations, spec, status, waits) in [
        (json!({}), Value::Null, json!({}), true),
        (excluded, Value::Null, json!({}), false),
        (json!({"machine.cluster.x-k8s.io/exclude-node-draining": ""}), Value::Null, json!({}), true),
        (json!({}), timeout.clone(), json!({}), true),
        (json!({}), timeout.clone(), started(59), true),
        (json!({}), timeout, started(60), false),
        (json!({}), json!({"nodeVolumeDetachTimeoutSeconds": 0}), started(600), true),
        (json!({}), Value::Null, terminating, false),
    ] {
        let mut case = Case::new();
        case.machine = machine(&annotations, &spec, &status);
        case.progress.drained = true;
        assert_eq!(case.stage() == Stage::VolumeDetach, waits, "{annotations} {spec} {status}");
    }
    for infrastructure in [dying(), Reading::Missing, Reading::Unreadable] {
        let progress = Progress { drained: true, ..Progress::default() };
        let case = Case { infrastructure, progress, ..Case::new() };
        assert_ne!(case.stage(), Stage::VolumeDetach, "there is no machine to detach from");
    }
    let case = Case { node: NodeFate::Left, ..Case::new() };
    assert_eq!(case.stage(), Stage::Infrastructure { ask: true });
}

#[test]
fn a_node_is_not_drained_between_two_looks_at_its_volumes() {
    let mut case = Case { is_between_looks: true, ..Case::new() };
    assert_eq!(case.stage(), Stage::VolumeDetach);
    case.progress.detached = true;
    assert_eq!(case.stage(), Stage::Drain, "a deletion goes on after a drain, and nothing else");
    case.progress = Progress::default();
    let excluded = json!({"machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach": ""});
    case.machine = machine(&excluded, &Value::Null, &json!({}));
    assert_eq!(case.stage(), Stage::Drain);
}

#[test]
fn a_node_is_given_up_after_its_time() {
    let mut waiting = machine(&json!({}), &json!({"nodeDeletionTimeoutSeconds": 10}), &json!({}));
    let since = waiting.metadata.deletion_timestamp.clone().expect("deleting").0;
    let after = |seconds| since + SignedDuration::from_secs(seconds);
    assert!(!is_node_given_up(&waiting, since, after(9)));
    assert!(is_node_given_up(&waiting, since, after(10)));
    assert!(!is_node_given_up(&waiting, after(600), after(600)), "one failure is not enough");
    assert!(!is_node_given_up(&waiting, after(600), after(609)));
    assert!(is_node_given_up(&waiting, after(600), after(610)));
    waiting.spec.deletion = None;
    assert!(!is_node_given_up(&waiting, since, after(9)));
    assert!(is_node_given_up(&waiting, since, after(10)), "as by default");
    waiting.spec.deletion =
        serde_json::from_value(json!({"nodeDeletionTimeoutSeconds": 0})).expect("a deletion");
    assert!(!is_node_given_up(&waiting, since, NOW), "zero is for ever");
}

#[test]
fn a_node_goes_with_its_machine_while_somebody_serves_it() {
    let cluster = |deleting: bool| -> Cluster {
        let metadata = match deleting {
            true => json!({"name": "c", "deletionTimestamp": "2025-01-01T00:00:00Z"}),
            false => json!({"name": "c"}),
        };
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "spec": {}});
        serde_json::from_value(cluster).expect("a Cluster")
    };
    let external = object(&json!({"status": {"externalManagedControlPlane": true}}));
    let plain = object(&json!({}));
    let going = object(&json!({"metadata": {"name": "x", "deletionTimestamp": "2025-01-01T00:00:00Z"}}));
    let with_node = json!({"nodeRef": {"name": "n"}});
    // Whether it is left only because no controller serves it.
    for (status, deleting, control_plane, others, fate, unserved) in [
        (&with_node, false, Some(&plain), 1, NodeFate::Goes, false),
        (&with_node, false, None, 1, NodeFate::Goes, false),
        (&json!({}), false, Some(&plain), 1, NodeFate::Left, false),
        (&json!({}), false, Some(&plain), 0, NodeFate::Left, false),
        (&with_node, true, Some(&plain), 1, NodeFate::Left, false),
        (&with_node, true, Some(&plain), 0, NodeFate::Left, false),
        (&with_node, false, Some(&going), 1, NodeFate::Left, false),
        (&with_node, false, Some(&plain), 0, NodeFate::Left, true),
        (&with_node, false, None, 0, NodeFate::Left, true),
        (&with_node, false, Some(&external), 0, NodeFate::Goes, false),
    ] {
        let cluster = cluster(deleting);
        let object =
            control_plane.map_or(Reading::Unreferenced, |object| Reading::Found(Box::new(object.clone())));
        let around = ControlPlane { object, machines: others };
        let machine = machine(&json!({}), &Value::Null, status);
        assert_eq!(node_fate(&machine, &cluster, &around), fate);
        assert_eq!(is_left_unserved(&machine, &cluster, &around), unserved);
    }
}
