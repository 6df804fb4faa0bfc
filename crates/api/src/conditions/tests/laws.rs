//! Laws of setting, sorting and patching.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::fixtures::{F, T, Thing, U, at};
use crate::conditions::{
    Condition, ConditionStatus, ConditionsPatch, NewCondition, Precedence, delete, find, set, sort,
};

const TYPES: [&str; 7] = ["Available", "Ready", "UpToDate", "Gate", "OtherGate", "Paused", "Deleting"];

pub(super) fn any_status() -> impl Strategy<Value = ConditionStatus> {
    select(&[T, F, U])
}

fn any_condition(type_: impl Strategy<Value = &'static str>) -> impl Strategy<Value = Condition> {
    (type_, any_status(), option::of(1..3i64), 0..4i64, select(&["R", "S"]), select(&["", "m", "n"]))
        .prop_map(|(type_, status, observed_generation, second, reason, message)| Condition {
            type_: type_.to_owned(),
            status,
            observed_generation,
            last_transition_time: Time(at(second)),
            reason: reason.to_owned(),
            message: message.to_owned(),
        })
}

/// Conditions of distinct types, as they stand on an object, in any order.
fn any_conditions() -> impl Strategy<Value = Vec<Condition>> {
    btree_map(select(&TYPES), any_condition(Just("")), 0..TYPES.len())
        .prop_map(|conditions| {
            conditions
                .into_iter()
                .map(|(type_, condition)| Condition { type_: type_.to_owned(), ..condition })
                .collect::<Vec<_>>()
        })
        .prop_shuffle()
}

fn any_new_condition() -> impl Strategy<Value = NewCondition> {
    (any_condition(select(&TYPES)), any::<bool>()).prop_map(|(condition, dated)| {
        let new = NewCondition::from(condition);
        if dated { new } else { NewCondition { last_transition_time: None, ..new } }
    })
}

/// What a controller does to conditions during a reconcile: sets some, deletes some.
fn any_work() -> impl Strategy<Value = Vec<Result<NewCondition, &'static str>>> {
    vec(prop_oneof![3 => any_new_condition().prop_map(Ok), 1 => select(&TYPES).prop_map(Err)], 0..6)
}

fn thing(conditions: Vec<Condition>) -> Thing {
    Thing { generation: Some(2), ..Thing::new("Thing", "a", conditions) }
}

fn after_work(
    before: &[Condition],
    work: Vec<Result<NewCondition, &'static str>>,
    now: i64,
) -> Vec<Condition> {
    let mut object = thing(before.to_vec());
    for step in work {
        match step {
            Ok(condition) => set(&mut object, condition, at(now)),
            Err(type_) => delete(&mut object, type_),
        };
    }
    object.conditions
}

fn sorted(mut conditions: Vec<Condition>) -> Vec<Condition> {
    sort(&mut conditions);
    conditions
}

fn is_changed(before: Option<&Condition>, after: Option<&Condition>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => !before.has_same_state(after),
        (before, after) => before.is_some() != after.is_some(),
    }
}

proptest! {
    #[test]
    fn set_reports_change_truthfully_and_is_idempotent(before in any_conditions(), new in any_new_condition()) {
        let mut object = thing(before.clone());
        let changed = set(&mut object, new.clone(), at(50));
        prop_assert_eq!(changed, object.conditions != before);

        let once = object.clone();
        prop_assert!(!set(&mut object, new, at(60)));
        prop_assert_eq!(object, once);
    }

    #[test]
    fn set_does_what_was_asked_and_touches_no_other_type(before in any_conditions(), new in any_new_condition()) {
        let mut object = thing(before.clone());
        set(&mut object, new.clone(), at(50));

        let set_one = find(&object.conditions, &new.type_).unwrap();
        prop_assert_eq!(set_one.status, new.status);
        prop_assert_eq!(&set_one.reason, &new.reason);
        prop_assert_eq!(&set_one.message, &new.message);
        prop_assert_eq!(set_one.observed_generation, Some(2));
        for type_ in TYPES.iter().filter(|type_| **type_ != new.type_) {
            prop_assert_eq!(find(&object.conditions, type_), find(&before, type_));
        }
    }

    #[test]
    fn the_time_changes_iff_the_status_does(before in any_conditions(), new in any_new_condition()) {
        let mut object = thing(before.clone());
        // No generated condition is as old as this, so a transition is always visible in the time.
        let new = NewCondition { last_transition_time: new.last_transition_time.map(|_| Time(at(-9))), ..new };
        set(&mut object, new.clone(), at(50));

        let after = find(&object.conditions, &new.type_).unwrap();
        match find(&before, &new.type_) {
            Some(old) => prop_assert_eq!(
                old.status != after.status,
                old.last_transition_time != after.last_transition_time
            ),
            None => prop_assert_eq!(
                &after.last_transition_time,
                &new.last_transition_time.unwrap_or(Time(at(50)))
            ),
        }
    }

    #[test]
    fn sorting_is_a_stable_idempotent_permutation(conditions in vec(any_condition(select(&TYPES)), 0..12)) {
        let once = sorted(conditions.clone());
        prop_assert_eq!(&sorted(once.clone()), &once);
        for type_ in TYPES {
            let of_type = |list: &[Condition]| -> Vec<Condition> {
                list.iter().filter(|condition| condition.type_ == type_).cloned().collect()
            };
            prop_assert_eq!(of_type(&once), of_type(&conditions), "same conditions, in the same order");
        }
        prop_assert_eq!(once.len(), conditions.len());
    }

    #[test]
    fn sorting_forgets_the_order_of_distinct_types(
        (conditions, shuffled) in any_conditions().prop_flat_map(|c| (Just(c.clone()), Just(c).prop_shuffle())),
    ) {
        prop_assert_eq!(sorted(conditions), sorted(shuffled));
    }

    #[test]
    fn without_a_race_a_patch_leads_where_the_work_led(before in any_conditions(), work in any_work()) {
        let after = after_work(&before, work, 50);
        let merged = ConditionsPatch::between(&before, &after).apply(&before, Precedence::Owned(&[])).unwrap();

        // Work that goes back and forth between two states leaves its mark on the time; a patch does not.
        let mut expected = after;
        for condition in &mut expected {
            if let Some(old) = find(&before, &condition.type_).filter(|old| old.status == condition.status) {
                condition.last_transition_time = old.last_transition_time.clone();
            }
        }
        prop_assert_eq!(sorted(merged), sorted(expected));
    }

    #[test]
    fn a_patch_never_loses_what_somebody_else_wrote(
        before in any_conditions(), ours in any_work(), theirs in any_work(),
    ) {
        let after = after_work(&before, ours, 50);
        let latest = after_work(&before, theirs, 60);
        if let Ok(merged) = ConditionsPatch::between(&before, &after).apply(&latest, Precedence::Owned(&[])) {
            for type_ in TYPES {
                let (before, latest) = (find(&before, type_), find(&latest, type_));
                if is_changed(before, latest) {
                    prop_assert_eq!(find(&merged, type_), latest, "{}", type_);
                }
            }
        }
    }

    #[test]
    fn a_patch_conflicts_only_over_types_that_both_changed(
        before in any_conditions(), ours in any_work(), theirs in any_work(),
    ) {
        let after = after_work(&before, ours, 50);
        let latest = after_work(&before, theirs, 60);
        let both_changed = TYPES.iter().any(|type_| {
            find(&before, type_) != find(&after, type_) && find(&before, type_) != find(&latest, type_)
        });
        let result = ConditionsPatch::between(&before, &after).apply(&latest, Precedence::Owned(&[]));
        prop_assert!(both_changed || result.is_ok(), "{:?}", result);
    }

    #[test]
    fn with_precedence_our_changes_win_and_only_ours(
        before in any_conditions(), ours in any_work(), theirs in any_work(),
    ) {
        let after = after_work(&before, ours, 50);
        let latest = after_work(&before, theirs, 60);
        let patch = ConditionsPatch::between(&before, &after);
        let merged = patch.apply(&latest, Precedence::Always).unwrap();
        prop_assert_eq!(&merged, &patch.apply(&latest, Precedence::Owned(&TYPES)).unwrap());
        for type_ in TYPES {
            let expected = if find(&before, type_) == find(&after, type_) { &latest } else { &after };
            prop_assert!(!is_changed(find(expected, type_), find(&merged, type_)), "{}", type_);
        }
    }
}
