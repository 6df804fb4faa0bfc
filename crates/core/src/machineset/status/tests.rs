//! Counters and conditions of a MachineSet, as tables.

use super::*;
use crate::machineset::fixtures::{machine, machine_set};
use capstan_api::conditions::get;
use serde_json::json;

fn after(replicas: i32, deleting: bool, seen: &Seen) -> MachineSet {
    let mut set = machine_set("ms", replicas, &json!({}));
    if deleting {
        set.metadata.deletion_timestamp = Some(crate::machineset::fixtures::at(0));
    }
    update(&mut set, seen, Timestamp::from_second(100).expect("a test value"));
    set
}

fn condition_of(set: &MachineSet, type_: &str) -> (String, String, String) {
    let condition = get(set, type_).expect("is told");
    (condition.status.to_string(), condition.reason.clone(), condition.message.clone())
}

fn seen(machines: Vec<Machine>) -> Seen {
    Seen { machines: Some(machines), ..Seen::default() }
}

#[test]
fn machines_are_counted() {
    let good =
        || machine("a").condition("Ready", true).condition("Available", true).condition("UpToDate", true);
    let updating = good().annotated(in_place::UPDATE_IN_PROGRESS).done();
    let set =
        after(3, false, &seen(vec![good().done(), updating, machine("c").condition("Ready", true).done()]));
    let status = set.status.expect("a test value");
    assert_eq!(
        (status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas),
        (Some(3), Some(2), Some(1), Some(1))
    );
    assert_eq!(status.selector.as_deref(), Some("a=b"));
    assert_eq!(status.versions.len(), 1);
}

#[test]
fn scaling_is_reported() {
    let machines = |number: usize| (0..number).map(|i| machine(&format!("m{i}")).done()).collect::<Vec<_>>();
    for (wanted, have, deleting, type_, expected) in [
        (3, 1, false, "ScalingUp", ("True", "ScalingUp", "Scaling up from 1 to 3 replicas")),
        (3, 3, false, "ScalingUp", ("False", "NotScalingUp", "")),
        (3, 1, true, "ScalingUp", ("False", "NotScalingUp", "")),
        (1, 3, false, "ScalingDown", ("True", "ScalingDown", "Scaling down from 3 to 1 replicas")),
        (3, 3, true, "ScalingDown", ("True", "ScalingDown", "Scaling down from 3 to 0 replicas")),
        (3, 3, false, "ScalingDown", ("False", "NotScalingDown", "")),
        (3, 2, true, "Deleting", ("True", "Deleting", "Deleting 2 Machines")),
        (3, 1, true, "Deleting", ("True", "Deleting", "Deleting 1 Machine")),
        (3, 0, true, "Deleting", ("True", "Deleting", "Deletion completed")),
        (3, 0, false, "Deleting", ("False", "NotDeleting", "")),
        (0, 0, false, "MachinesReady", ("True", "NoReplicas", "")),
        (0, 0, false, "Remediating", ("False", "NotRemediating", "")),
    ] {
        let (status, reason, message) = condition_of(&after(wanted, deleting, &seen(machines(have))), type_);
        assert_eq!((&*status, &*reason, &*message), expected, "{type_} {wanted} {have} {deleting}");
    }
}

#[test]
fn what_blocks_scaling_up_is_reported() {
    let blocked = Seen {
        machines: Some(vec![]),
        missing_templates: vec!["ConfigTemplate".into(), "InfraTemplate".into()],
        preflight_failures: vec!["Cp ns/cp is provisioning".into()],
        ..Seen::default()
    };
    assert_eq!(
        condition_of(&after(1, false, &blocked), "ScalingUp").2,
        "Scaling up from 0 to 1 replicas is blocked because:\n* Cp ns/cp is provisioning\n\
         * ConfigTemplate and InfraTemplate do not exist"
    );
    let would_be = Seen { missing_templates: vec!["InfraTemplate".into()], ..blocked };
    assert_eq!(
        condition_of(&after(0, false, &would_be), "ScalingUp").2,
        "Scaling up would be blocked because InfraTemplate does not exist"
    );
}

#[test]
fn without_machines_nothing_is_known() {
    let set = after(3, false, &Seen::default());
    for type_ in OWNED.iter().filter(|type_| **type_ != "Paused") {
        let (status, reason, message) = condition_of(&set, type_);
        assert_eq!((&*status, &*reason, &*message), ("Unknown", "InternalError", CHECK_LOGS), "{type_}");
    }
    assert_eq!(set.status.expect("a test value").replicas, None);
}

#[test]
fn young_machines_are_not_blamed_for_saying_nothing() {
    let young = machine("young").created(95).done();
    let old = machine("old").created(5).done();
    let set = after(2, false, &seen(vec![young.clone()]));
    assert_eq!(condition_of(&set, "MachinesUpToDate").1, "NoReplicas");
    let set = after(2, false, &seen(vec![young, old]));
    assert_eq!(
        condition_of(&set, "MachinesUpToDate").2,
        "* Machine old: Condition UpToDate not yet reported"
    );
}

#[test]
fn remediation_is_reported() {
    let sick =
        machine("a").condition("HealthCheckSucceeded", false).condition("OwnerRemediated", false).done();
    let set = after(1, false, &seen(vec![sick]));
    let (status, reason, _) = condition_of(&set, "Remediating");
    assert_eq!((&*status, &*reason), ("True", "Remediating"));
}
