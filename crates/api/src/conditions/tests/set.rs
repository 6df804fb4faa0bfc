//! Setting and deleting conditions.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::fixtures::{F, T, Thing, at, condition};
use crate::conditions::{NewCondition, delete, set, sort};

fn thing(conditions: Vec<crate::conditions::Condition>) -> Thing {
    Thing::new("Thing", "a", conditions)
}

fn ready(status: bool) -> NewCondition {
    NewCondition::new("Ready", status, "Reason-Ready")
}

#[test]
fn a_new_condition_gets_the_generation_and_the_time() {
    let mut object = Thing { generation: Some(3), ..thing(vec![]) };
    assert!(set(&mut object, ready(true).message("fine"), at(5)));
    assert_eq!(object.conditions, [condition("Ready", T, "fine").since(5).of_generation(3)]);
}

#[test]
fn the_callers_time_wins_over_now() {
    let mut object = thing(vec![]);
    set(&mut object, ready(true).since(Time(at(2))), at(5));
    assert_eq!(object.conditions, [condition("Ready", T, "").since(2)]);

    set(&mut object, ready(false).since(Time(at(3))), at(6));
    assert_eq!(object.conditions, [condition("Ready", F, "").since(3)]);
}

#[test]
fn the_time_moves_when_the_status_changes() {
    let mut object = thing(vec![condition("Ready", T, "")]);
    assert!(set(&mut object, ready(false), at(9)));
    assert_eq!(object.conditions, [condition("Ready", F, "").since(9)]);
}

#[test]
fn the_time_stays_when_only_reason_message_or_generation_change() {
    let before = condition("Ready", T, "old").of_generation(1);
    let cases = [
        (ready(true).message("new"), 1, condition("Ready", T, "new").of_generation(1)),
        (
            NewCondition::new("Ready", true, "Other").message("old"),
            1,
            condition("Ready", T, "old").because("Other").of_generation(1),
        ),
        (ready(true).message("old"), 2, condition("Ready", T, "old").of_generation(2)),
        (ready(true).message("new").since(Time(at(8))), 1, condition("Ready", T, "new").of_generation(1)),
    ];
    for (new, generation, expected) in cases {
        let mut object = Thing { generation: Some(generation), ..thing(vec![before.clone()]) };
        assert!(set(&mut object, new, at(9)));
        assert_eq!(object.conditions, [expected]);
    }
}

#[test]
fn another_time_alone_changes_nothing() {
    let mut object = thing(vec![condition("Zebra", T, ""), condition("Ready", T, "")]);
    let before = object.clone();
    assert!(!set(&mut object, ready(true).since(Time(at(8))), at(9)));
    assert_eq!(object, before, "not even the order");
}

#[test]
fn fractions_of_a_second_are_dropped() {
    let half = SignedDuration::from_millis(500);
    let cases = [
        (at(5) + half, at(5)),
        (Timestamp::UNIX_EPOCH - half, Timestamp::UNIX_EPOCH - SignedDuration::from_secs(1)),
    ];
    for (given, kept) in cases {
        let mut as_now = thing(vec![]);
        set(&mut as_now, ready(true), given);
        assert_eq!(as_now.conditions[0].last_transition_time, Time(kept));

        let mut as_own = thing(vec![]);
        set(&mut as_own, ready(true).since(Time(given)), at(0));
        assert_eq!(as_own.conditions[0].last_transition_time, Time(kept));
    }
}

#[test]
fn generation_zero_is_no_generation() {
    let mut object = Thing { generation: Some(0), ..thing(vec![]) };
    set(&mut object, ready(true), at(0));
    assert_eq!(object.conditions[0].observed_generation, None);
    assert!(!set(&mut object, ready(true), at(1)));
}

#[test]
fn a_change_puts_the_list_in_order() {
    let mut object = thing(vec![condition("Zebra", T, ""), condition("Available", T, "")]);
    set(&mut object, NewCondition::new("Mango", true, "Fruit"), at(0));
    assert_eq!(object.types(), ["Available", "Mango", "Zebra"]);
}

#[test]
fn delete_takes_one_condition_once() {
    let mut object = thing(vec![condition("Ready", T, ""), condition("Available", F, "")]);
    assert!(delete(&mut object, "Ready"));
    assert_eq!(object.types(), ["Available"]);
    assert!(!delete(&mut object, "Ready"));
    assert_eq!(object.types(), ["Available"]);
}

#[test]
fn the_order_is_that_of_the_contract() {
    let expected = [
        "Available",
        "Ready",
        "UpToDate",
        "RemoteConnectionProbe",
        "BootstrapConfigReady",
        "InfrastructureReady",
        "ControlPlaneInitialized",
        "ControlPlaneAvailable",
        "WorkersAvailable",
        "CertificatesAvailable",
        "Initialized",
        "EtcdClusterHealthy",
        "ControlPlaneComponentsHealthy",
        "NodeHealthy",
        "NodeReady",
        "NodeKubeadmLabelsAndTaintsSet",
        "EtcdPodHealthy",
        "EtcdMemberHealthy",
        "APIServerPodHealthy",
        "ControllerManagerPodHealthy",
        "SchedulerPodHealthy",
        "HealthCheckSucceeded",
        "OwnerRemediated",
        "TopologyReconciled",
        "Updating",
        "RollingOut",
        "Remediating",
        "ScalingDown",
        "ScalingUp",
        "MachinesReady",
        "ControlPlaneMachinesReady",
        "WorkerMachinesReady",
        "MachinesUpToDate",
        "ControlPlaneMachinesUpToDate",
        "WorkerMachinesUpToDate",
        "AGate",
        "BGate",
        "aGate",
        "Paused",
        "Deleting",
    ];
    let mut sorted: Vec<_> = expected.iter().map(|type_| condition(type_, T, "")).collect();
    sorted.sort_by(|a, b| a.type_.cmp(&b.type_));
    assert_ne!(sorted[0].type_, "Available", "must not be in order by chance");
    sort(&mut sorted);
    assert_eq!(thing(sorted).types(), expected);
}
