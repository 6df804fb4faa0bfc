//! Every refusal names the object and what to do.

use super::*;
use crate::graph::tests::{cluster, object as made, plain};
use crate::kinds::kinds as known;
use serde_json::json;

fn mark() -> Mark {
    Mark { from: "a".to_owned(), to: "b".to_owned() }
}

/// The reasons after one object of a healthy cluster was put in place of another.
fn reasons_with(changed: Object) -> Vec<String> {
    let mut all = cluster();
    all.retain(|object| object.uid() != changed.uid());
    all.push(changed);
    objects(&Graph::new(all, "default", &[]), &mark())
}

#[test]
fn a_cluster_at_rest_may_go() {
    assert_eq!(objects(&Graph::new(cluster(), "default", &[]), &mark()), Vec::<String>::new());
}

#[test]
fn whatever_is_not_at_rest_is_named_with_its_remedy() {
    let done = || {
        json!({
            "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
            "conditions": [{"type": "ControlPlaneInitialized", "status": "True"}],
        })
    };
    let cluster = |spec: Value, status: Value, annotations: Value| {
        made(
            "Cluster/c",
            &[],
            json!({"metadata": {"annotations": annotations}, "spec": spec, "status": status}),
        )
    };
    let class =
        |annotations: Value| made("ClusterClass/k", &[], json!({"metadata": {"annotations": annotations}}));
    for (changed, object, remedy) in [
        (
            cluster(json!({"paused": true}), done(), json!({})),
            "Cluster default/c is paused",
            "spec.paused to false",
        ),
        (
            cluster(json!({}), done(), json!({"cluster.x-k8s.io/paused": ""})),
            "Cluster default/c is paused",
            "remove its annotation cluster.x-k8s.io/paused",
        ),
        (
            class(json!({"cluster.x-k8s.io/paused": ""})),
            "ClusterClass default/k is paused",
            "remove its annotation",
        ),
        (
            cluster(json!({}), json!({}), json!({})),
            "Cluster default/c has no infrastructure yet",
            "capstan why c -n default",
        ),
        (
            cluster(json!({}), json!({"initialization": {"infrastructureProvisioned": true}}), json!({})),
            "Cluster default/c has no working control plane yet",
            "capstan why c -n default",
        ),
        (
            cluster(json!({"paused": true}), done(), json!({MOVE: "a/z"})),
            "Cluster default/c is on its way elsewhere",
            "finish that move",
        ),
        (
            plain("Machine/m", &["CapstanControlPlane/c"]),
            "Machine default/m has no Node yet",
            "capstan why machine/m",
        ),
        (
            made(
                "Machine/m",
                &["CapstanControlPlane/c"],
                json!({
                    "metadata": {"deletionTimestamp": "2026-11-15T00:00:00Z"},
                    "status": {"nodeRef": {"name": "n"}},
                }),
            ),
            "Machine default/m is being deleted",
            "wait until it is gone",
        ),
    ] {
        let reasons = reasons_with(changed);
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(reasons[0].contains(object) && reasons[0].contains(remedy), "{}", reasons[0]);
        assert!(!reasons[0].contains('\n'));
    }
}

#[test]
fn what_this_move_has_done_does_not_speak_against_it() {
    let on_the_way = made(
        "Cluster/c",
        &[],
        json!({
            "metadata": {
                "annotations": {MOVE: "a/b", DELETE_FOR_MOVE: ""},
                "deletionTimestamp": "2026-11-15T00:00:00Z",
            },
            "spec": {"paused": true},
            "status": {
                "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
                "conditions": [{"type": "ControlPlaneInitialized", "status": "True"}],
            },
        }),
    );
    assert_eq!(reasons_with(on_the_way), Vec::<String>::new());
}

#[test]
fn the_target_must_have_every_provider_in_no_older_version() {
    let provider = |name: &str, version: &str| -> Provider {
        serde_json::from_value(json!({
            "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
            "metadata": {"name": format!("infrastructure-{name}")},
            "providerName": name, "type": "InfrastructureProvider", "version": version,
        }))
        .unwrap()
    };
    let ours = || provider("capstan", "v0.2.0");
    for (source, target, expected) in [
        (vec![], vec![], None),
        (vec![], vec![ours()], None),
        (vec![ours()], vec![ours()], None),
        (vec![ours()], vec![provider("capstan", "v0.3.0"), provider("other", "v1.0.0")], None),
        (vec![ours()], vec![], Some("infrastructure-capstan is missing")),
        (vec![ours()], vec![provider("other", "v1.0.0")], Some("infrastructure-capstan is missing")),
        (vec![ours()], vec![provider("capstan", "v0.1.9")], Some("is v0.1.9, older than v0.2.0")),
        (vec![provider("capstan", "new")], vec![ours()], Some("no version that can be read")),
        (vec![ours()], vec![provider("capstan", "")], Some("no version that can be read")),
    ] {
        let reasons = providers(&source, &target);
        match expected {
            None => assert_eq!(reasons, Vec::<String>::new()),
            Some(text) => assert!(reasons.len() == 1 && reasons[0].contains(text), "{reasons:?}"),
        }
    }
}

#[test]
fn the_target_must_know_every_kind_that_moves() {
    let graph = Graph::new(cluster(), "default", &[]);
    assert_eq!(kinds(&graph, &known(&capstan_api::crd::all())), Vec::<String>::new());
    let reasons = kinds(&graph, &known(&capstan_api::crd::core_provider()));
    assert_eq!(reasons.len(), 7, "{reasons:?}");
    assert!(
        reasons[0].starts_with("the target does not know MachineReport (agent.capstan.dev/"),
        "{reasons:?}"
    );
}

#[test]
fn a_namesake_at_the_target_is_in_the_way_and_an_earlier_copy_is_not() {
    let graph = Graph::new(vec![plain("Host/h", &[])], "default", &[]);
    let namesake = plain("Host/h", &[]).body;
    let copy = made("Host/h", &[], json!({"metadata": {"annotations": {ORIGIN: "Host/h"}}})).body;
    assert_eq!(collisions(&graph, |_| None), Vec::<String>::new());
    assert_eq!(collisions(&graph, |_| Some(&copy)), Vec::<String>::new());
    let reasons = collisions(&graph, |_| Some(&namesake));
    assert_eq!(
        reasons,
        ["Host default/h exists at the target and is another one: rename or delete it there"]
    );
}
