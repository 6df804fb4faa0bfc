//! Clusters with a managed topology.

use super::objects::object;
use super::{errors, rejected, with, write};
use capstan_admission::{Fact, Facts, Kind, Workers, default, needs_of_default, needs_of_validate, validate};
use serde_json::{Value, json};

fn cluster(topology: &Value) -> Value {
    let base = json!({"classRef": {"name": "standard"}, "version": "v1.36.0"});
    with(object(Kind::Cluster), &json!({"spec": {"topology": with(base, topology)}}))
}

fn class() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "integer", "default": 3, "maximum": 9}});
    let definitions = json!([{"from": "inline", "required": true, "schema": schema}]);
    with(
        object(Kind::ClusterClass),
        &json!({"metadata": {"generation": 2}, "status": {
            "observedGeneration": 2,
            "conditions": [{"type": "VariablesReady", "status": "True", "reason": "VariablesReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "variables": [{"name": "cpu", "definitionsConflict": false, "definitions": definitions}],
        }}),
    )
}

fn knowing(class: Value) -> Facts {
    Facts { class: Fact::Known(class), ..Facts::default() }
}

#[test]
fn variables_get_the_defaults_of_a_reconciled_class() {
    let unread = with(class(), &json!({"metadata": {"generation": 3}}));
    let not_ready =
        with(class(), &json!({"status": {"conditions": [{"type": "VariablesReady", "status": "False"}]}}));
    for (facts, expected) in [
        (knowing(class()), Some(json!([{"name": "cpu", "value": 3}]))),
        (knowing(unread), None),
        (knowing(not_ready), None),
        (Facts { class: Fact::Absent, ..Facts::default() }, None),
    ] {
        let new = cluster(&json!({"version": "1.36.0"}));
        let (changed, _) = default(&write(Kind::Cluster, None, &new), &facts).expect("defaults");
        let changed = changed.expect("the version is changed");
        assert_eq!(changed["spec"]["topology"]["version"], "v1.36.0");
        assert_eq!(changed["spec"]["topology"].get("variables").cloned(), expected);
    }
}

#[test]
fn variables_that_break_their_schema_are_rejected_with_the_defaults() {
    let new = cluster(&json!({"variables": [{"name": "cpu", "value": 10}]}));
    let defaulted =
        |facts: &Facts| errors(default(&write(Kind::Cluster, None, &new), facts).map(|_| Vec::new()));
    assert_eq!(defaulted(&knowing(class())), ["spec.topology.variables[cpu].value: FieldValueInvalid"]);
    assert_eq!(defaulted(&Facts::default()), ["spec.topology.classRef: InternalError"]);
}

#[test]
fn facts_are_needed_for_a_topology_only() {
    let plain = object(Kind::Cluster);
    let first = cluster(&json!({}));
    let newer = cluster(&json!({"version": "v1.37.0"}));
    let moved = cluster(&json!({"classRef": {"name": "other", "namespace": "shared"}}));
    let needs = |old: Option<&Value>, new: &Value| {
        let write = write(Kind::Cluster, old, new);
        assert_eq!(needs_of_default(&write).class, needs_of_validate(&write).class);
        let needs = needs_of_validate(&write);
        let keys = [needs.class, needs.old_class, needs.workers_of, needs.control_plane.map(|one| one.key)];
        keys.map(|key| key.map(|key| format!("{}/{}", key.namespace, key.name)))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(needs(None, &plain), [None, None, None, None]);
    assert_eq!(needs(None, &first), [some("n/standard"), None, None, None]);
    assert_eq!(needs(Some(&first), &first), [some("n/standard"), None, None, None]);
    assert_eq!(needs(Some(&first), &moved), [some("shared/other"), some("n/standard"), None, None]);
    assert_eq!(needs(Some(&first), &newer), [some("n/standard"), None, some("n/shop"), some("n/shop")]);
}

#[test]
fn a_class_that_is_missing_is_a_warning_and_one_that_is_unknown_an_error() {
    let new = cluster(&json!({}));
    let warnings = |class: Fact<Value>| {
        validate(&write(Kind::Cluster, None, &new), &Facts { class, ..Facts::default() })
    };
    assert_eq!(warnings(Fact::Known(class())), Ok(Vec::new()));
    let missing = warnings(Fact::Absent).expect("a warning");
    assert!(missing[0].contains("ClusterClass n/standard does not exist"), "{missing:?}");
    let unread = with(class(), &json!({"metadata": {"generation": 3}}));
    assert!(warnings(Fact::Known(unread)).expect("a warning")[0].contains("not reconciled"));
    assert_eq!(errors(warnings(Fact::default())), ["spec.topology.classRef: InternalError"]);
    let facts = Facts { class: Fact::Absent, ..Facts::default() };
    assert_eq!(rejected(Kind::Cluster, Some(&new), &new, &facts), ["spec.topology.classRef: InternalError"]);
}

#[test]
fn topologies_are_checked_for_their_class() {
    let workers = |class: &str, more: Value| {
        let group = with(json!({"class": class, "name": "a"}), &more);
        cluster(&json!({"workers": {"machineDeployments": [group]}}))
    };
    let taint = json!({"key": "node.kubernetes.io/x", "effect": "NoSchedule", "propagation": "Always"});
    for (new, expected) in [
        (workers("small", json!({})), None),
        (
            workers("large", json!({})),
            Some("spec.topology.workers.machineDeployments[0].class: FieldValueInvalid"),
        ),
        (
            workers("small", json!({"taints": [taint]})),
            Some("spec.topology.workers.machineDeployments[a].taints[0].key: FieldValueInvalid"),
        ),
        (
            workers("small", json!({"healthCheck": {"enabled": true}})),
            Some("spec.topology.workers.machineDeployments[a].healthCheck.enabled: FieldValueForbidden"),
        ),
    ] {
        let expected = Vec::from_iter(expected);
        assert_eq!(rejected(Kind::Cluster, None, &new, &knowing(class())), expected, "{new}");
    }
}

#[test]
fn a_version_changes_when_the_upgrade_before_is_finished() {
    let old = cluster(&json!({}));
    let newer = |more: Value| with(cluster(&json!({"version": "v1.37.0"})), &more);
    let plane =
        |version: &str| Fact::Known(json!({"spec": {"version": version}, "status": {"version": version}}));
    let deployment = json!({
        "metadata": {"name": "md"},
        "spec": {"selector": {"matchLabels": {"md": "a"}}, "template": {"spec": {"version": "v1.36.0"}}},
    });
    let pool = |reported: &str| {
        json!({
            "metadata": {"name": "mp"},
            "spec": {"template": {"spec": {"version": "v1.36.0"}}},
            "status": {"versions": [{"version": reported}]},
        })
    };
    let machine = |label: &str, version: &str, kubelet: &str| {
        json!({
            "metadata": {"labels": {label: if label == "md" { "a" } else { "mp" }}},
            "spec": {"version": version}, "status": {"nodeInfo": {"kubeletVersion": kubelet}},
        })
    };
    let workers = |pools: Vec<Value>, machines: Vec<Value>| {
        Fact::Known(Workers { deployments: vec![deployment.clone()], pools, machines })
    };
    let none = || workers(vec![], vec![]);
    let error = Some("spec.topology.version: FieldValueInvalid");
    let of_pool = "cluster.x-k8s.io/pool-name";
    let pending = json!({"metadata": {"annotations": {
        "runtime.cluster.x-k8s.io/pending-hooks": "BeforeClusterDelete,AfterClusterUpgrade",
    }}});
    let unchecked = json!({"metadata": {"annotations": {
        "unsafe.topology.cluster.x-k8s.io/disable-update-version-check": "",
    }}});
    for (more, control_plane, workers, expected) in [
        (json!({}), plane("v1.36.0"), none(), None),
        (json!({}), plane("v1.35.0"), none(), error),
        (json!({}), Fact::Absent, none(), error),
        (json!({}), Fact::default(), none(), error),
        (json!({}), plane("v1.36.0"), Fact::default(), error),
        (json!({}), plane("v1.36.0"), workers(vec![], vec![machine("md", "v1.36.0", "v1.36.0")]), None),
        (json!({}), plane("v1.36.0"), workers(vec![], vec![machine("md", "v1.35.0", "v1.36.0")]), error),
        (json!({}), plane("v1.36.0"), workers(vec![], vec![machine("md", "v1.36.0", "v1.35.0")]), error),
        (json!({}), plane("v1.36.0"), workers(vec![], vec![machine("other", "v1.35.0", "")]), None),
        (
            json!({}),
            plane("v1.36.0"),
            workers(vec![pool("v1.36.0")], vec![machine(of_pool, "v1.36.0", "")]),
            None,
        ),
        (
            json!({}),
            plane("v1.36.0"),
            workers(vec![pool("v1.36.0")], vec![machine(of_pool, "v1.35.0", "")]),
            error,
        ),
        (json!({}), plane("v1.36.0"), workers(vec![pool("v1.35.0")], vec![]), error),
        (pending, plane("v1.36.0"), none(), error),
        (unchecked, Fact::default(), Fact::default(), None),
    ] {
        let facts = Facts { control_plane, workers, ..knowing(class()) };
        let expected = Vec::from_iter(expected);
        assert_eq!(rejected(Kind::Cluster, Some(&old), &newer(more), &facts), expected, "{facts:?}");
    }
    let skipped = cluster(&json!({"version": "v1.38.0"}));
    let facts = Facts { control_plane: plane("v1.36.0"), workers: none(), ..knowing(class()) };
    assert_eq!(rejected(Kind::Cluster, Some(&old), &skipped, &facts), Vec::from_iter(error));
}

#[test]
fn another_class_must_be_compatible() {
    let old = cluster(&json!({}));
    let new = cluster(&json!({"classRef": {"name": "other"}}));
    let other = with(class(), &json!({"metadata": {"name": "other"}}));
    let kind = json!({"spec": {"infrastructure": {"templateRef": {"kind": "OtherTemplate"}}}});
    for (old_class, expected) in [
        (Fact::Known(class()), None),
        (Fact::Known(with(class(), &kind)), Some("spec.infrastructure")),
        (Fact::Absent, Some("spec.topology.classRef: FieldValueForbidden")),
        (Fact::default(), Some("spec.topology.classRef: InternalError")),
    ] {
        let facts = Facts { old_class, ..knowing(other.clone()) };
        let found = rejected(Kind::Cluster, Some(&old), &new, &facts).join(" ");
        assert!(found.starts_with(expected.unwrap_or_default()), "{found}");
        assert_eq!(found.is_empty(), expected.is_none(), "{found}");
    }
}
