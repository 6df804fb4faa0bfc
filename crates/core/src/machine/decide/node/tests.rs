//! What a Node carries because of its Machine, as tables.

use capstan_api::core::{Machine, MachineDeployment, MachineSet};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::{is_outdated, patch};
use crate::machine::tests::{machine, read};
use crate::node_sync::NodeSync;

fn node(metadata: &Value, taints: &Value) -> Node {
    let mut metadata = metadata.clone();
    metadata["name"] = json!("node");
    metadata["resourceVersion"] = json!("7");
    read(json!({"metadata": metadata, "spec": {"taints": taints}}))
}

fn labelled() -> Machine {
    machine(
        &json!({
            "labels": {
                "node-role.kubernetes.io/gpu": "", "a.node.cluster.x-k8s.io/x": "1", "mine": "no",
                "x.node-restriction.kubernetes.io/y": "2", "notnode.cluster.x-k8s.io/z": "no",
            },
            "annotations": {"node.cluster.x-k8s.io/note": "n", "other": "no"},
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "MachineSet", "name": "s", "uid": "s", "controller": true}],
        }),
        &json!({}),
    )
}

/// Applies a merge patch as the server would, as far as these tests need it.
fn apply(node: &Node, patch: &Value) -> Node {
    let mut value = serde_json::to_value(node).expect("JSON");
    for map in ["labels", "annotations"] {
        for (key, change) in patch["metadata"][map].as_object().into_iter().flatten() {
            match change {
                Value::Null => _ = value["metadata"][map].as_object_mut().expect("a map").remove(key),
                change => value["metadata"][map][key] = change.clone(),
            }
        }
    }
    if let Some(taints) = patch.pointer("/spec/taints") {
        value["spec"]["taints"] = taints.clone();
    }
    read(value)
}

#[test]
fn labels_and_annotations_come_and_go_with_the_machine() {
    let bare = node(&json!({"labels": {"kubernetes.io/hostname": "h"}}), &json!([]));
    let first = patch(&bare, &labelled(), true, false, &NodeSync::default()).expect("something to do");
    assert_eq!(first["metadata"]["resourceVersion"], "7");
    assert_eq!(
        first["metadata"]["labels"],
        json!({"a.node.cluster.x-k8s.io/x": "1", "cluster.x-k8s.io/interruptible": "",
            "node-role.kubernetes.io/gpu": "", "x.node-restriction.kubernetes.io/y": "2"})
    );
    assert_eq!(
        first["metadata"]["annotations"],
        json!({
            "cluster.x-k8s.io/annotations-from-machine": "node.cluster.x-k8s.io/note",
            "cluster.x-k8s.io/cluster-name": "c",
            "cluster.x-k8s.io/cluster-namespace": "n",
            "cluster.x-k8s.io/labels-from-machine": "a.node.cluster.x-k8s.io/x,cluster.x-k8s.io/interruptible,\
                node-role.kubernetes.io/gpu,x.node-restriction.kubernetes.io/y",
            "cluster.x-k8s.io/machine": "m",
            "cluster.x-k8s.io/owner-kind": "MachineSet",
            "cluster.x-k8s.io/owner-name": "s",
            "cluster.x-k8s.io/taints-from-machine": "",
            "node.cluster.x-k8s.io/note": "n",
        })
    );
    let dressed = apply(&bare, &first);
    assert_eq!(
        patch(&dressed, &labelled(), true, false, &NodeSync::default()),
        None,
        "nothing is left to do"
    );

    let second = patch(&dressed, &machine(&json!({}), &json!({})), false, false, &NodeSync::default())
        .expect("something to undo");
    assert_eq!(second["metadata"]["labels"]["node-role.kubernetes.io/gpu"], Value::Null);
    assert_eq!(second["metadata"]["annotations"]["cluster.x-k8s.io/owner-kind"], Value::Null);
    let undressed = apply(&dressed, &second);
    assert_eq!(undressed.metadata.labels.map(|labels| labels.len()), Some(1), "others' labels stay");
}

#[test]
fn taints_come_and_go_with_the_machine() {
    let taint = |key: &str, propagation: &str| json!({"key": key, "effect": "NoSchedule", "propagation": propagation});
    let with = |taints: &Value| {
        let mut machine = machine(&json!({}), &json!({}));
        machine.spec.taints = read(taints.clone());
        machine
    };
    let keys = |node: &Node| -> Vec<String> {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        taints.into_iter().map(|taint| taint.key).collect()
    };
    let born = json!([{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"},
        {"key": "others", "effect": "NoExecute"}]);
    let machine = with(&json!([taint("always", "Always"), taint("once", "OnInitialization")]));
    let first = node(&json!({}), &born);
    let first = apply(&first, &patch(&first, &machine, false, false, &NodeSync::default()).expect("a patch"));
    assert_eq!(keys(&first), ["others", "always", "once"]);

    // Somebody takes both away: only one is put back.
    let mut robbed = first.clone();
    robbed.spec.get_or_insert_default().taints = Some(vec![]);
    let again =
        apply(&robbed, &patch(&robbed, &machine, false, false, &NodeSync::default()).expect("a patch"));
    assert_eq!(keys(&again), ["always"]);

    let free =
        apply(&first, &patch(&first, &with(&json!([])), false, true, &NodeSync::default()).expect("a patch"));
    assert_eq!(keys(&free), ["others", "once", "node.cluster.x-k8s.io/outdated-revision"]);
    let current =
        apply(&free, &patch(&free, &with(&json!([])), false, false, &NodeSync::default()).expect("a patch"));
    assert_eq!(keys(&current), ["others", "once"]);
}

#[test]
fn the_older_revision_is_outdated() {
    let template = json!({"spec": {"clusterName": "c", "bootstrap": {},
        "infrastructureRef": {"apiGroup": "i", "kind": "I", "name": "i"}}});
    let object = |kind: &str, revision: &str| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": "x", "annotations": {"machinedeployment.clusters.x-k8s.io/revision": revision}},
            "spec": {"clusterName": "c", "selector": {}, "template": template}})
    };
    for (set, deployment, expected) in
        [("1", "2", Some(true)), ("2", "2", Some(false)), ("10", "9", Some(false)), ("x", "1", None)]
    {
        let set: MachineSet = read(object("MachineSet", set));
        let deployment: MachineDeployment = read(object("MachineDeployment", deployment));
        assert_eq!(is_outdated(Some(&set), Some(&deployment)).ok(), expected);
    }
    assert_eq!(is_outdated(None, None).ok(), Some(false));
}

#[test]
fn further_keys_are_copied_where_the_user_says_so() {
    let sync = NodeSync {
        labels: vec!["^mine$".parse().expect("a pattern")],
        annotations: vec!["^oth".parse().expect("a pattern")],
    };
    let bare = node(&json!({}), &json!([]));
    let dressed = apply(&bare, &patch(&bare, &labelled(), false, false, &sync).expect("a patch"));
    let map = |node: &Node, map: &str, key: &str| {
        serde_json::to_value(node).expect("JSON")["metadata"][map].get(key).cloned()
    };
    assert_eq!(map(&dressed, "labels", "mine"), Some(json!("no")));
    assert_eq!(map(&dressed, "annotations", "other"), Some(json!("no")));
    assert_eq!(map(&dressed, "labels", "notnode.cluster.x-k8s.io/z"), None);
    // Whoever says so no longer takes them away again.
    let plain = patch(&dressed, &labelled(), false, false, &NodeSync::default()).expect("a patch");
    let undressed = apply(&dressed, &plain);
    assert_eq!((map(&undressed, "labels", "mine"), map(&undressed, "annotations", "other")), (None, None));
}
