//! Counters, phases and conditions of a MachineDeployment, as tables.

use super::super::fixtures::deployment;
use super::*;
use crate::machineset::fixtures::{at, machine, machine_set};
use serde_json::{Value, json};

fn counted(replicas: i32, available: i32) -> MachineSet {
    let status = json!({"replicas": replicas, "readyReplicas": available, "availableReplicas": available,
        "upToDateReplicas": available, "versions": [{"version": "v1.34.0", "replicas": replicas}]});
    machine_set("ms", replicas, &json!({ "status": status }))
}

fn after(fields: &Value, deleting: bool, seen: &Seen) -> MachineDeployment {
    let mut target = deployment(fields);
    target.metadata.deletion_timestamp = deleting.then(|| at(0));
    update(&mut target, seen, Timestamp::from_second(100).expect("a test value"));
    target
}

fn condition_of(target: &MachineDeployment, type_: &str) -> (String, String, String) {
    let condition = get(target, type_).expect("is told");
    (condition.status.to_string(), condition.reason.clone(), condition.message.clone())
}

fn seen(sets: Vec<MachineSet>) -> Seen {
    Seen { sets: Some(sets), ..Seen::default() }
}

#[test]
fn sets_are_added_up() {
    let target = after(&json!({}), false, &seen(vec![counted(2, 1), counted(1, 1)]));
    let status = target.status.expect("a test value");
    assert_eq!((status.replicas, status.available_replicas), (Some(3), Some(2)));
    assert_eq!(status.versions[0].replicas, Some(3));
    assert_eq!(status.phase, Some(MachineDeploymentPhase::Running));
    let none = after(&json!({}), false, &seen(vec![])).status.expect("a test value");
    assert_eq!((none.replicas, none.phase), (None, Some(MachineDeploymentPhase::ScalingUp)));
}

#[test]
fn numbers_become_conditions() {
    let loose = json!({"spec": {"rollout": {"strategy": {"rollingUpdate": {"maxUnavailable": "34%"}}}}});
    let on_delete = json!({"spec": {"rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": null}}}});
    for (fields, sets, deleting, type_, expected) in [
        (&json!({}), vec![counted(3, 3)], false, "Available", ("True", "Available", "")),
        (
            &json!({}),
            vec![counted(3, 2)],
            false,
            "Available",
            (
                "False",
                "NotAvailable",
                "2 available replicas, at least 3 required (spec.strategy.rollout.maxUnavailable is 0, \
                 spec.replicas is 3)",
            ),
        ),
        (&loose, vec![counted(3, 2)], false, "Available", ("True", "Available", "")),
        (
            &on_delete,
            vec![counted(3, 2)],
            false,
            "Available",
            ("False", "NotAvailable", "2 available replicas, at least 3 required"),
        ),
        (
            &json!({}),
            vec![counted(3, 2)],
            true,
            "Available",
            ("False", "NotAvailable", "Deletion in progress"),
        ),
        (
            &json!({}),
            vec![],
            false,
            "Available",
            ("Unknown", "WaitingForAvailableReplicasSet", "Waiting for status.availableReplicas set"),
        ),
        (
            &json!({}),
            vec![counted(1, 1)],
            false,
            "ScalingUp",
            ("True", "ScalingUp", "Scaling up from 1 to 3 replicas"),
        ),
        (&json!({}), vec![counted(3, 1)], false, "ScalingUp", ("False", "NotScalingUp", "")),
        (
            &json!({}),
            vec![counted(4, 1)],
            false,
            "ScalingDown",
            ("True", "ScalingDown", "Scaling down from 4 to 3 replicas"),
        ),
        (&json!({}), vec![counted(3, 1)], false, "ScalingDown", ("False", "NotScalingDown", "")),
        (&json!({}), vec![counted(3, 1)], true, "Deleting", ("True", "Deleting", "Deleting 1 MachineSets")),
        (&json!({}), vec![], true, "Deleting", ("True", "Deleting", "Deletion completed")),
        (&json!({}), vec![], false, "RollingOut", ("False", "NotRollingOut", "")),
    ] {
        let (status, reason, message) = condition_of(&after(fields, deleting, &seen(sets)), type_);
        assert_eq!((&*status, &*reason, &*message), expected, "{type_} {fields}");
    }
}

#[test]
fn a_rollout_says_why_with_the_version_first() {
    let outdated = |name: &str, message: &str| {
        machine(name)
            .condition("UpToDate", false)
            .change(|machine| {
                machine.status.get_or_insert_default().conditions[0].message = message.to_owned();
            })
            .done()
    };
    let machines = vec![
        outdated("a", "* Infra is not up-to-date"),
        outdated("b", "* Version v1.34.0, v1.35.0 required\n* Infra is not up-to-date"),
        machine("c").condition("UpToDate", true).done(),
    ];
    let target = after(&json!({}), false, &Seen { machines, ..seen(vec![counted(3, 3)]) });
    assert_eq!(
        condition_of(&target, "RollingOut").2,
        "Rolling out 2 not up-to-date replicas\n* Version v1.34.0, v1.35.0 required\n* Infra is not up-to-date"
    );
}

#[test]
fn without_sets_nothing_is_known() {
    let target = after(&json!({}), false, &Seen::default());
    for type_ in ["Available", "ScalingUp", "ScalingDown", "Deleting"] {
        assert_eq!(condition_of(&target, type_).1, "InternalError", "{type_}");
    }
    assert_eq!(target.status.expect("a test value").phase, Some(MachineDeploymentPhase::Unknown));
}

#[test]
fn a_rollout_that_is_held_says_why() {
    let held = Seen { held: Some("refused by x: no".to_owned()), ..seen(vec![counted(3, 3)]) };
    let condition_of = condition_of(&after(&json!({}), false, &held), "RollingOut");
    assert_eq!(
        condition_of,
        ("True".to_owned(), "RolloutHeld".to_owned(), "Held: refused by x: no".to_owned())
    );
}
