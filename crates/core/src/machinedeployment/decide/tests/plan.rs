//! Single steps of the arithmetic, as tables. The numbers are upstream's.

use super::*;

/// `(spec, replicas, available)`.
type Counts = (i32, i32, i32);

fn set(name: &str, age: i64, (spec, replicas, available): Counts) -> Set {
    let created = Timestamp::from_second(age).ok();
    Set { name: name.into(), created, spec, replicas, available, movable: false }
}

fn olds(counts: &[Counts]) -> Vec<Set> {
    (1..).zip(counts).map(|(age, counts)| set(&format!("old{age}"), age, *counts)).collect()
}

fn limits(desired: i32, max_surge: i32, max_unavailable: i32) -> Limits {
    Limits { desired, max_surge, max_unavailable }
}

#[test]
fn the_new_set_grows_as_far_as_the_surge_allows() {
    for (limits, new, old, expected) in [
        (limits(2, 2, 0), (0, 0, 0), vec![], 2),
        (limits(0, 2, 0), (2, 2, 2), vec![], 0),
        (limits(3, 2, 0), (1, 1, 1), vec![(3, 3, 3)], 2),
        // Machines that are on their way out still count.
        (limits(2, 0, 1), (0, 0, 0), vec![(0, 2, 2)], 0),
        (limits(3, 1, 0), (0, 0, 0), vec![(3, 3, 3)], 1),
        (limits(3, 1, 0), (3, 3, 3), vec![(1, 1, 1)], 3),
        (limits(3, 1, 0), (5, 5, 5), vec![], 3),
    ] {
        let (new, old) = (set("new", 9, new), olds(&old));
        let mut plan = Plan::default();
        scale_new(&mut plan, limits, &new, &old.iter().collect::<Vec<_>>());
        assert_eq!(plan.target(&new), expected, "{limits:?} {new:?} {old:?}");
    }
}

#[test]
fn old_sets_shrink_only_as_far_as_machines_stay_available() {
    let tight = limits(3, 1, 0);
    for (case, limits, new, old, expected) in [
        ("nothing left", limits(10, 1, 0), (10, 10, 10), vec![(0, 0, 0)], vec![0]),
        ("at the minimum", tight, (1, 1, 1), vec![(2, 2, 2)], vec![2]),
        ("below the minimum", tight, (1, 1, 1), vec![(2, 2, 1)], vec![2]),
        ("an earlier step is not done", tight, (1, 1, 1), vec![(2, 3, 3)], vec![2]),
        (
            "an earlier step on another set is not done",
            limits(6, 3, 1),
            (3, 0, 0),
            vec![(2, 3, 3), (3, 3, 3)],
            vec![2, 3],
        ),
        ("new machines do not come up", tight, (1, 1, 0), vec![(3, 3, 0)], vec![3]),
        ("nor without surge", limits(3, 0, 1), (1, 1, 0), vec![(2, 2, 0)], vec![2]),
        ("the new machine is not available", tight, (1, 1, 0), vec![(3, 3, 3)], vec![3]),
        ("an old machine is not available", tight, (1, 1, 1), vec![(3, 3, 2)], vec![3]),
        ("all available", tight, (1, 1, 1), vec![(3, 3, 3)], vec![2]),
        ("unavailable first", tight, (1, 1, 1), vec![(2, 2, 2), (1, 1, 0), (2, 2, 0)], vec![2, 0, 0]),
        ("then available", tight, (1, 1, 1), vec![(3, 3, 3), (1, 1, 0), (2, 2, 0)], vec![2, 0, 0]),
        (
            "replicas without machines cost nothing",
            tight,
            (1, 1, 1),
            vec![(4, 3, 3), (2, 1, 0), (5, 2, 0)],
            vec![2, 0, 0],
        ),
        ("stops in time", tight, (1, 1, 1), vec![(1, 1, 1), (1, 1, 0), (2, 2, 1)], vec![1, 0, 2]),
        (
            "stops in time, replicas without machines",
            tight,
            (1, 1, 1),
            vec![(2, 1, 1), (3, 1, 0), (3, 2, 1)],
            vec![1, 0, 2],
        ),
        ("counts an earlier step", tight, (2, 2, 2), vec![(3, 4, 4)], vec![2]),
    ] {
        let (new, old) = (set("new", 9, new), olds(&old));
        let sets: Vec<&Set> = old.iter().collect();
        let mut plan = Plan::default();
        scale_old(&mut plan, limits, &new, &sets, &sets);
        let got: Vec<i32> = old.iter().map(|set| plan.target(set)).collect();
        assert_eq!(got, expected, "{case}");
    }
}

#[test]
fn steps_decided_just_now_count_as_well() {
    for (decided, new, old, expected) in [
        (("new", 1), (2, 2, 2), (2, 2, 2), 2),
        (("old1", 1), (2, 2, 2), (2, 2, 2), 1),
        (("new", 1), (2, 2, 2), (3, 3, 3), 2),
        (("old1", 2), (2, 2, 2), (3, 3, 3), 1),
    ] {
        let (new, old) = (set("new", 9, new), olds(&[old]));
        let sets: Vec<&Set> = old.iter().collect();
        let mut plan = Plan::default();
        plan.replicas.insert(decided.0.into(), decided.1);
        scale_old(&mut plan, limits(3, 1, 0), &new, &sets, &sets);
        assert_eq!(plan.target(&old[0]), expected, "{decided:?}");
    }
}

#[test]
fn a_deadlock_costs_one_unavailable_machine() {
    for (case, new, old, decided, expected) in [
        ("nothing left", (10, 10, 10), (0, 0, 0), None, 0),
        ("all available", (5, 5, 5), (5, 5, 5), None, 5),
        ("the new set still grows", (6, 5, 5), (5, 5, 4), None, 5),
        ("the old set still shrinks", (5, 5, 5), (4, 5, 4), None, 4),
        ("the new set was just told to grow", (5, 5, 5), (5, 5, 4), Some(("new", 6)), 5),
        ("the old set was just told to shrink", (5, 5, 5), (5, 5, 4), Some(("old1", 4)), 4),
        ("new machines come first", (5, 5, 3), (5, 5, 4), None, 5),
        ("a deadlock", (5, 5, 5), (5, 5, 3), None, 4),
    ] {
        let (new, old) = (set("new", 9, new), olds(&[old]));
        let mut plan = Plan::default();
        plan.replicas.extend(decided.map(|(name, replicas)| (name.to_owned(), replicas)));
        break_deadlock(&mut plan, &new, &old.iter().collect::<Vec<_>>());
        assert_eq!(plan.target(&old[0]), expected, "{case}");
    }
}

#[test]
fn what_can_be_changed_in_place_is_moved_and_nothing_is_made() {
    let movable = |mut set: Set| {
        set.movable = true;
        set
    };
    for (case, limits, new, old, expected) in [
        ("begins with one", limits(3, 1, 0), (0, 0, 0), (3, 3, 3), (0, 2)),
        ("begins with as many as may be missing", limits(9, 1, 3), (0, 0, 0), (9, 9, 9), (0, 6)),
        ("waits for the move", limits(3, 1, 0), (0, 0, 0), (2, 3, 3), (0, 2)),
        ("waits for the update", limits(3, 1, 0), (1, 1, 0), (2, 2, 2), (1, 2)),
        ("goes on", limits(3, 1, 0), (1, 1, 1), (2, 2, 2), (1, 1)),
        ("still scales up", limits(5, 1, 0), (0, 0, 0), (3, 3, 3), (2, 3)),
    ] {
        let (new, old) = (set("new", 9, new), movable(olds(&[old]).remove(0)));
        let plan = rolling_update(limits, &new, std::slice::from_ref(&old));
        assert_eq!((plan.target(&new), plan.target(&old)), expected, "{case}");
        assert_eq!(plan.moves, ["old1"], "{case}");
    }
    // It has all it needs: the rest is not worth an update.
    let (new, old) = (set("new", 9, (3, 3, 3)), movable(olds(&[(1, 1, 1)]).remove(0)));
    let plan = rolling_update(limits(3, 1, 0), &new, std::slice::from_ref(&old));
    assert!(plan.moves.is_empty() && plan.target(&old) == 0, "{plan:?}");
}
