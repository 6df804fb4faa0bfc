//! Which Nodes are of the pool, what is written to them, and which are deleted.

use capstan_api::core::MachinePool;
use capstan_controller::Next;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

use super::{NOW, machine, node, pool};
use crate::machinepool::decide::nodes;

fn listing(list: &Value, refs: &[&str]) -> MachinePool {
    let refs: Vec<Value> =
        refs.iter().map(|name| json!({"kind": "Node", "name": name, "uid": format!("uid-{name}")})).collect();
    pool(&json!({"spec": {"providerIDList": list}, "status": {"nodeRefs": refs}}))
}

fn names(nodes: &[Arc<Node>]) -> Vec<String> {
    nodes.iter().map(|node| node.name_any()).collect()
}

fn marks() -> Value {
    json!({
        "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/cluster-namespace": "n",
        "cluster.x-k8s.io/owner-kind": "MachinePool", "cluster.x-k8s.io/owner-name": "p",
    })
}

#[test]
fn nodes_are_found_by_provider_id_and_counted() {
    let since = |ready: &str, time: &str| json!({"status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": time}]}});
    let all = [
        node("a", "x://a", &json!({})),
        node("b", "x://b", &since("False", super::BEFORE)),
        node("c", "x://c", &since("True", "2027-01-15T07:59:00Z")),
        node("d", "x://d", &json!({})),
        node("e", "", &json!({})),
    ];
    let list = json!(["x://c", "x://missing", "x://b", "x://a"]);
    for (min_ready, available, next) in
        [(0, 2, Next::Changed), (30, 1, Next::After(Duration::from_secs(20))), (10, 2, Next::Changed)]
    {
        let mut pool = listing(&list, &[]);
        pool.spec.template.spec.min_ready_seconds = Some(min_ready);
        let matched = nodes::matched(&pool, &all, NOW);
        assert_eq!(names(&matched.nodes), ["c", "b", "a"]);
        let uids: Vec<_> = matched.refs.iter().filter_map(|reference| reference.uid.as_deref()).collect();
        assert_eq!(uids, ["uid-c", "uid-b", "uid-a"]);
        assert_eq!((matched.ready, matched.available, matched.next), (2, available, next), "{min_ready}");
    }
}

#[test]
fn of_two_nodes_with_one_provider_id_the_newer_one_counts() {
    let made = |time: &str| json!({"metadata": {"creationTimestamp": time}});
    let all = [
        node("a", "x://a", &made("2026-01-01T00:00:00Z")),
        node("b", "x://a", &made("2026-01-02T00:00:00Z")),
        node("c", "x://a", &made("2026-01-01T12:00:00Z")),
    ];
    assert_eq!(names(&nodes::matched(&listing(&json!(["x://a"]), &[]), &all, NOW).nodes), ["b"]);
}

#[test]
fn only_nodes_of_machines_that_have_left_the_pool_retire() {
    let list = json!(["x://a"]);
    let marked = json!({"metadata": {"annotations": marks()}});
    let other = {
        let mut annotations = marks();
        annotations["cluster.x-k8s.io/owner-name"] = json!("q");
        json!({"metadata": {"annotations": annotations}})
    };
    let reused = json!({"metadata": {"uid": "another"}});
    let by_id = || vec![machine("m", &json!({"spec": {"providerID": "x://z"}}))];
    let by_name = || vec![machine("m", &json!({"status": {"nodeRef": {"name": "z"}}}))];
    for (because, refs, name, id, change, machines, retires) in [
        ("it is listed", vec!["a"], "a", "x://a", json!({}), vec![], false),
        ("it is referred to and not listed", vec!["z"], "z", "x://z", json!({}), vec![], true),
        ("annotations name the pool", vec![], "z", "x://z", marked.clone(), vec![], true),
        ("annotations name another pool", vec![], "z", "x://z", other, vec![], false),
        ("nothing names the pool", vec![], "z", "x://z", json!({}), vec![], false),
        ("another machine has its name", vec!["z"], "z", "x://z", reused, vec![], false),
        ("its machine is unknown", vec!["z"], "z", "", json!({}), vec![], false),
        ("it goes with its Machine, by provider ID", vec!["z"], "z", "x://z", marked.clone(), by_id(), false),
        ("it goes with its Machine, by name", vec!["z"], "z", "x://z", marked, by_name(), false),
    ] {
        let all = [node(name, id, &change)];
        let retired = nodes::retired(&listing(&list, &refs), &all, &machines);
        assert_eq!(!retired.is_empty(), retires, "{because}");
    }
}

#[test]
fn a_node_gets_annotations_and_loses_one_taint() {
    let pool = listing(&json!([]), &[]);
    let taint = json!({"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"});
    let own = json!({"key": "own", "effect": "NoSchedule"});
    let new = node("a", "x://a", &json!({"spec": {"taints": [taint, own]}}));
    let patch = nodes::patch(&pool, &new).expect("something to write");
    assert_eq!(patch["metadata"], json!({"resourceVersion": "7", "annotations": marks()}));
    assert_eq!(patch["spec"], json!({"taints": [own]}));
    let done = json!({"metadata": {"annotations": marks()}, "spec": {"taints": [own]}});
    assert_eq!(nodes::patch(&pool, &node("a", "x://a", &done)), None);
}

#[test]
fn an_event_of_a_node_reaches_its_pool() {
    let pool = listing(&json!(["x://a"]), &["b"]);
    for (name, id, concerned) in [
        ("new", Some("x://a"), true),
        ("b", None, true),
        ("b", Some("x://b"), true),
        ("c", Some("x://c"), false),
        ("c", None, false),
    ] {
        assert_eq!(nodes::may_be_of(&pool, name, id), concerned, "{name} {id:?}");
    }
}
