//! Which differences need a rollout, and which MachineSet is the new one.

use super::*;
use crate::machinedeployment::fixtures::deployment;
use crate::machineset::fixtures::machine_set;
use serde_json::{Value, json};

fn template(fields: &Value) -> MachineTemplateSpec {
    deployment(&json!({"spec": {"template": fields}})).spec.template
}

#[test]
fn only_rollout_fields_count() {
    let base = template(&json!({}));
    for (fields, summary) in [
        (json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}}), vec![]),
        (json!({"spec": {"minReadySeconds": 5}}), vec![]),
        (json!({"spec": {"readinessGates": [{"conditionType": "A"}]}}), vec![]),
        (json!({"spec": {"deletion": {"nodeDrainTimeoutSeconds": 5}}}), vec![]),
        (
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule", "propagation": "Always"}]}}),
            vec![],
        ),
        (json!({"spec": {"version": "v1.35.0"}}), vec!["Version v1.34.0, v1.35.0 required"]),
        (json!({"spec": {"failureDomain": "b"}}), vec!["Failure domain , b required"]),
        (json!({"spec": {"infrastructureRef": {"name": "u"}}}), vec!["Infra is not up-to-date"]),
        (json!({"spec": {"bootstrap": {"configRef": {"name": "u"}}}}), vec!["Config is not up-to-date"]),
    ] {
        let found = differences(&base, &template(&fields));
        assert_eq!(found.summary, summary, "{fields}");
        assert_eq!(found.detailed.len(), summary.len(), "{fields}");
    }
}

fn set(name: &str, replicas: i32, created: i64, version: &str) -> MachineSet {
    let mut set = machine_set(name, replicas, &json!({"spec": {"template": {"spec": {"version": version}}}}));
    set.metadata.creation_timestamp = Some(crate::machineset::fixtures::at(created));
    set
}

fn chosen(deployment: &MachineDeployment, sets: Vec<MachineSet>) -> (Option<String>, Vec<String>) {
    let selection = select(deployment, sets, Timestamp::from_second(1000).expect("a test value"));
    let names = |sets: &[MachineSet]| sets.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>();
    (selection.new.map(|set| set.name_any()), names(&selection.old))
}

#[test]
fn the_set_with_most_machines_that_fits_is_the_new_one() {
    let wanted = deployment(&json!({}));
    assert_eq!(chosen(&wanted, vec![]), (None, vec![]));
    let sets = vec![set("old", 9, 1, "v1.33.0"), set("few", 1, 1, "v1.34.0"), set("many", 3, 2, "v1.34.0")];
    assert_eq!(chosen(&wanted, sets), (Some("many".into()), vec!["old".into(), "few".into()]));
    let sets = vec![set("b", 1, 2, "v1.34.0"), set("a", 1, 3, "v1.34.0")];
    assert_eq!(chosen(&wanted, sets).0.as_deref(), Some("b"), "the older one");
    assert_eq!(chosen(&wanted, vec![set("old", 9, 1, "v1.33.0")]), (None, vec!["old".into()]));
}

#[test]
fn a_rollout_by_time_needs_a_younger_set() {
    let by_time = |seconds: i64| {
        let after = Timestamp::from_second(seconds).expect("a test value").to_string();
        deployment(&json!({"spec": {"rollout": {"after": after}}}))
    };
    let sets = || vec![set("early", 3, 100, "v1.34.0")];
    assert_eq!(chosen(&by_time(2000), sets()).0.as_deref(), Some("early"), "the time has not come");
    assert_eq!(chosen(&by_time(500), sets()), (None, vec!["early".into()]));
    let both = || vec![set("early", 3, 100, "v1.34.0"), set("late", 1, 600, "v1.34.0")];
    assert_eq!(chosen(&by_time(500), both()).0.as_deref(), Some("late"));
    assert_eq!(chosen(&by_time(50), sets()).0.as_deref(), Some("early"), "already younger");

    let mixed = vec![set("other", 3, 100, "v1.33.0"), set("late", 1, 600, "v1.33.0")];
    let selection = select(&by_time(500), mixed, Timestamp::from_second(1000).expect("a test value"));
    assert_eq!(
        selection.eligible,
        BTreeSet::from(["late".to_owned()]),
        "a rollout by time means new machines"
    );
}
