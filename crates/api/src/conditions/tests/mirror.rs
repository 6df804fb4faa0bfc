//! One condition copied from another object.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::fixtures::{T, Thing, U, at, condition};
use crate::conditions::{Mirror, NewCondition, set};

fn source() -> Thing {
    Thing::new("Thing", "a", vec![condition("Ready", T, "fine").since(3).of_generation(10)])
}

fn silent() -> Thing {
    Thing::new("Thing", "a", vec![condition("Other", T, "")])
}

fn mirrored(type_: &str) -> NewCondition {
    NewCondition::new(type_, T, "Reason-Ready").message("fine").since(Time(at(3)))
}

#[test]
fn a_condition_is_copied_with_its_time_and_under_the_target_type() {
    assert_eq!(Mirror::of("Ready").mirror(&source()), mirrored("Ready"));
    assert_eq!(
        Mirror::of("Ready").to("InfrastructureReady").mirror(&source()),
        mirrored("InfrastructureReady")
    );
}

#[test]
fn a_missing_condition_is_unknown_and_named_by_its_source_type() {
    let unknown =
        |type_| NewCondition::new(type_, U, "NotYetReported").message("Condition Ready not yet reported");
    assert_eq!(Mirror::of("Ready").mirror(&silent()), unknown("Ready"));
    assert_eq!(
        Mirror::of("Ready").to("InfrastructureReady").mirror(&silent()),
        unknown("InfrastructureReady")
    );
}

#[test]
fn a_fallback_stands_in_for_a_missing_condition_only() {
    let mirror = Mirror::of("Ready").to("InfrastructureReady").fallback(false, "NotReady", "not provisioned");
    let fallback = NewCondition::new("InfrastructureReady", false, "NotReady").message("not provisioned");
    assert_eq!(mirror.mirror(&silent()), fallback);
    assert_eq!(mirror.mirror_condition(None), fallback);
    assert_eq!(mirror.mirror(&source()), mirrored("InfrastructureReady"));
}

#[test]
fn a_mirrored_condition_keeps_its_time_and_gets_the_generation_of_its_new_object() {
    let mut target = Thing { generation: Some(2), ..Thing::new("Thing", "b", vec![]) };
    set(&mut target, Mirror::of("Ready").mirror(&source()), Timestamp::MAX);
    assert_eq!(target.conditions, [condition("Ready", T, "fine").since(3).of_generation(2)]);
}
