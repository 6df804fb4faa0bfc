//! Three-way merges of conditions.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::fixtures::{F, T, at, condition};
use crate::conditions::{Condition, ConditionConflict, ConditionsPatch, Precedence};

const NOTHING_OWNED: Precedence<'static> = Precedence::Owned(&[]);

fn yes() -> Condition {
    condition("Foo", T, "yes")
}

fn no() -> Condition {
    condition("Foo", F, "no")
}

fn other() -> Condition {
    condition("Foo", F, "something else")
}

/// As a controller holds it before it has been through the API.
fn with_fraction(mut condition: Condition) -> Condition {
    condition.last_transition_time = Time(condition.last_transition_time.0 + SignedDuration::from_millis(10));
    condition
}

fn apply(
    before: &[Condition],
    after: &[Condition],
    latest: &[Condition],
    precedence: Precedence<'_>,
) -> Result<Vec<Condition>, ConditionConflict> {
    ConditionsPatch::between(before, after).apply(latest, precedence)
}

#[test]
fn a_patch_is_empty_only_between_equal_lists() {
    let is_empty =
        |before: &[Condition], after: &[Condition]| ConditionsPatch::between(before, after).is_empty();
    assert!(is_empty(&[], &[]));
    assert!(is_empty(&[yes()], &[yes()]));
    assert!(is_empty(&[yes()], &[yes().of_generation(0)]), "generation zero is none");
    assert!(!is_empty(&[], &[yes()]));
    assert!(!is_empty(&[yes()], &[no()]));
    assert!(!is_empty(&[yes()], &[]));
    assert!(!is_empty(&[yes()], &[yes().since(1)]));
}

#[test]
fn an_empty_patch_leaves_even_the_order_alone() {
    let latest = [condition("Zebra", T, ""), condition("Available", T, "")];
    assert_eq!(apply(&[yes()], &[yes()], &latest, NOTHING_OWNED).unwrap(), latest);
}

#[test]
fn without_a_race_changes_are_applied() {
    assert_eq!(apply(&[], &[with_fraction(yes())], &[], NOTHING_OWNED).unwrap(), [yes()]);
    assert_eq!(apply(&[yes()], &[with_fraction(no())], &[yes()], NOTHING_OWNED).unwrap(), [no()]);
    assert_eq!(apply(&[yes()], &[], &[yes()], NOTHING_OWNED).unwrap(), []);
}

#[test]
fn conditions_of_others_stay_and_the_result_is_in_order() {
    let ready = condition("Ready", T, "");
    let merged = apply(&[], &[yes()], &[condition("Paused", F, ""), ready.clone()], NOTHING_OWNED).unwrap();
    assert_eq!(merged, [ready, yes(), condition("Paused", F, "")]);
}

#[test]
fn who_agrees_has_no_conflict_and_the_first_time_stays() {
    let earlier = || yes().since(-7);
    assert_eq!(apply(&[], &[yes()], &[earlier()], NOTHING_OWNED).unwrap(), [earlier()]);
    assert_eq!(apply(&[no()], &[yes()], &[earlier()], NOTHING_OWNED).unwrap(), [earlier()]);
    assert_eq!(apply(&[yes()], &[], &[], NOTHING_OWNED).unwrap(), []);
    assert_eq!(apply(&[yes()], &[], &[earlier()], NOTHING_OWNED).unwrap(), [], "only the time differs");
}

#[test]
fn who_disagrees_has_a_conflict_unless_he_takes_precedence() {
    let foo = || "Foo".to_owned();
    let cases = [
        (vec![], vec![yes()], vec![no()], ConditionConflict::BothAdded(foo())),
        (vec![no()], vec![other()], vec![yes()], ConditionConflict::BothChanged(foo())),
        (vec![yes()], vec![no()], vec![], ConditionConflict::DeletedByOther(foo())),
        (vec![yes()], vec![], vec![no()], ConditionConflict::ChangedByOther(foo())),
    ];
    for (before, after, latest, conflict) in cases {
        let apply = |precedence| apply(&before, &after, &latest, precedence);
        assert_eq!(apply(NOTHING_OWNED), Err(conflict.clone()));
        assert_eq!(apply(Precedence::Owned(&["Bar"])), Err(conflict));
        assert_eq!(apply(Precedence::Owned(&["Bar", "Foo"])).unwrap(), after);
        assert_eq!(apply(Precedence::Always).unwrap(), after);
    }
}

#[test]
fn a_change_of_time_by_others_is_a_conflict_only_for_who_changes_too() {
    let moved = || no().since(5);
    assert_eq!(
        apply(&[no()], &[other()], &[moved()], NOTHING_OWNED),
        Err(ConditionConflict::BothChanged("Foo".to_owned()))
    );
    assert_eq!(apply(&[no()], &[], &[moved()], NOTHING_OWNED).unwrap(), []);
}

#[test]
fn even_with_precedence_the_time_moves_only_with_the_status() {
    let latest = [other().since(-7)];
    let merged = apply(&[yes()], &[no()], &latest, Precedence::Always).unwrap();
    assert_eq!(merged, [no().since(-7)]);
    assert_ne!(merged[0].last_transition_time, Time(at(0)));
}

#[test]
fn what_agrees_in_one_type_does_not_hide_a_conflict_in_another() {
    let bar = |status| condition("Bar", status, "");
    let result = apply(&[], &[yes(), bar(T)], &[yes(), bar(F)], NOTHING_OWNED);
    assert_eq!(result, Err(ConditionConflict::BothAdded("Bar".to_owned())));
}
