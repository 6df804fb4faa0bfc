//! One condition over many objects.

use super::fixtures::{F, T, Thing, U, condition};
use crate::conditions::{
    Aggregate, ConditionStatus, Conditioned, MergeError, MergeStrategy, NewCondition, Polarity, Reasons,
};

/// Objects `obj0`, `obj1` and so on, each with one condition.
fn things(conditions: &[(ConditionStatus, &str)]) -> Vec<Thing> {
    conditions
        .iter()
        .enumerate()
        .map(|(i, (status, message))| {
            Thing::new("Thing", format!("obj{i}"), vec![condition("Available", *status, message)])
        })
        .collect()
}

fn machine(name: &str, status: ConditionStatus, message: &str) -> Thing {
    Thing::new("Machine", name, vec![condition("Available", status, message)])
}

fn aggregate(objects: &[Thing]) -> NewCondition {
    Aggregate::over("Available").aggregate(objects).unwrap()
}

fn outcome(status: ConditionStatus, reason: &str, lines: &[&str]) -> NewCondition {
    NewCondition::new("Available", status, reason).message(lines.join("\n"))
}

#[test]
fn issues_beat_unknowns_and_unknowns_beat_good_news() {
    let cases = [
        (vec![(F, "one"), (T, "good")], F, "IssuesReported", vec!["* Thing obj0: one"]),
        (
            vec![(U, "two"), (F, "one"), (T, "good")],
            F,
            "IssuesReported",
            vec!["* Thing obj1: one", "* Thing obj0: two"],
        ),
        (vec![(U, "two"), (T, "good")], U, "UnknownReported", vec!["* Thing obj0: two"]),
        (vec![(T, "good"), (T, "")], T, "InfoReported", vec!["* Thing obj0: good"]),
        (vec![(T, ""), (T, "")], T, "InfoReported", vec![]),
        (vec![(F, "")], F, "IssuesReported", vec!["* Thing obj0: "]),
    ];
    for (conditions, status, reason, lines) in cases {
        assert_eq!(aggregate(&things(&conditions)), outcome(status, reason, &lines));
    }
}

#[test]
fn objects_that_say_the_same_share_a_line_that_names_three() {
    let line = |count: usize| aggregate(&things(&vec![(F, "same"); count])).message;
    assert_eq!(line(1), "* Thing obj0: same");
    assert_eq!(line(2), "* Things obj0, obj1: same");
    assert_eq!(line(3), "* Things obj0, obj1, obj2: same");
    assert_eq!(line(4), "* Things obj0, obj1, obj2, ... (1 more): same");
    assert_eq!(line(9), "* Things obj0, obj1, obj2, ... (6 more): same");
}

#[test]
fn names_are_sorted_though_conditions_are_not() {
    let objects = [machine("b", F, "same"), machine("c", F, "same"), machine("a", F, "same")];
    assert_eq!(aggregate(&objects).message, "* Machines a, b, c: same");
}

#[test]
fn three_messages_are_shown_and_the_rest_is_counted_by_priority() {
    let five = things(&[(F, "1"), (F, "2"), (F, "4"), (F, "5"), (F, "1"), (F, "3"), (T, "good")]);
    let lines =
        ["* Things obj0, obj4: 1", "* Thing obj1: 2", "* Thing obj2: 4", "And 2 Things with other issues"];
    assert_eq!(aggregate(&five), outcome(F, "IssuesReported", &lines));

    let mixed = things(&[(F, "1"), (F, "2"), (U, "3"), (F, "4"), (F, "5"), (F, "6"), (T, "good")]);
    let lines = [
        "* Thing obj0: 1",
        "* Thing obj1: 2",
        "* Thing obj3: 4",
        "And 2 Things with other issues",
        "And 1 Thing with status unknown",
    ];
    assert_eq!(aggregate(&mixed), outcome(F, "IssuesReported", &lines));

    let good = things(&[(T, "1"), (T, "2"), (T, "3"), (T, ""), (T, "4")]);
    let lines = ["* Thing obj0: 1", "* Thing obj1: 2", "* Thing obj2: 3", "And 1 Thing with additional info"];
    assert_eq!(aggregate(&good), outcome(T, "InfoReported", &lines));
}

#[test]
fn a_message_that_is_both_issue_and_unknown_counts_as_issue() {
    let objects = things(&[(U, "both"), (U, "unknown"), (U, "unknown"), (U, "unknown"), (F, "both")]);
    let lines = ["* Things obj0, obj4: both", "* Things obj1, obj2, obj3: unknown"];
    assert_eq!(aggregate(&objects), outcome(F, "IssuesReported", &lines));
}

#[test]
fn what_more_objects_say_comes_first() {
    let objects = things(&[(F, "one"), (F, "two"), (F, "three"), (F, "two"), (F, "three"), (F, "three")]);
    let lines = ["* Things obj2, obj4, obj5: three", "* Things obj1, obj3: two", "* Thing obj0: one"];
    assert_eq!(aggregate(&objects), outcome(F, "IssuesReported", &lines));
}

#[test]
fn kinds_come_by_name_and_share_the_room() {
    let mut objects = things(&[(F, "1"), (F, "2")]);
    objects.push(Thing::new("Thingy", "y", vec![condition("Available", F, "3")]));
    objects.push(Thing::new("Anything", "x", vec![condition("Available", F, "4")]));
    objects.push(Thing::new("Thingy", "z", vec![condition("Available", U, "5")]));
    let lines = [
        "* Anything x: 4",
        "* Thing obj0: 1",
        "* Thing obj1: 2",
        "And 1 Thingy with other issues",
        "And 1 Thingy with status unknown",
    ];
    assert_eq!(aggregate(&objects), outcome(F, "IssuesReported", &lines));
}

#[test]
fn control_plane_machines_come_first_among_messages_and_names() {
    let objects = [
        machine("cp", U, "* slow").control_plane(),
        machine("a", U, "* slow"),
        machine("b", F, "broken"),
        machine("c", F, "broken"),
        machine("d", F, "broken"),
    ];
    let lines = ["* Machines cp, a:", "  * slow", "* Machines b, c, d: broken"];
    assert_eq!(aggregate(&objects), outcome(F, "IssuesReported", &lines));
}

/// Four Machines, two of which say `1` and two `2`: nothing but who comes first can decide.
fn tie(a: (ConditionStatus, i64), b: i64, c: i64, d: i64) -> [Thing; 4] {
    let machine = |name: &str, status, message: &str, second| {
        Thing::new("Machine", name, vec![condition("Available", status, message).since(second)])
    };
    [machine("a", a.0, "1", a.1), machine("d", F, "1", d), machine("b", F, "2", b), machine("c", F, "2", c)]
}

#[test]
fn among_equals_the_oldest_reporter_decides() {
    // The names are compared in order of time: a,d against b,c and then d,a against b,c.
    assert_eq!(aggregate(&tie((F, 1), 1, 2, 2)).message, "* Machines a, d: 1\n* Machines b, c: 2");
    assert_eq!(aggregate(&tie((F, 2), 1, 2, 1)).message, "* Machines b, c: 2\n* Machines a, d: 1");
}

#[test]
fn among_equals_who_has_an_issue_counts_as_older_than_who_is_unknown() {
    assert_eq!(aggregate(&tie((U, 1), 2, 2, 2)).message, "* Machines b, c: 2\n* Machines a, d: 1");
}

#[test]
fn among_reporters_of_the_same_second_the_name_decides_in_whatever_order_they_come() {
    let [a, d, b, c] = tie((F, 1), 1, 1, 1);
    let expected = "* Machines a, d: 1\n* Machines b, c: 2";
    assert_eq!(aggregate(&[a.clone(), d.clone(), b.clone(), c.clone()]).message, expected);
    assert_eq!(aggregate(&[d, a, b, c]).message, expected);
}

#[test]
fn a_missing_condition_is_unknown() {
    let objects = [machine("a", F, "broken"), Thing::new("Machine", "b", vec![condition("Other", T, "")])];
    let lines = ["* Machine a: broken", "* Machine b: Condition Available not yet reported"];
    assert_eq!(aggregate(&objects), outcome(F, "IssuesReported", &lines));

    let target = Aggregate::over("Available").to("WorkersAvailable").aggregate(&objects).unwrap();
    assert_eq!(target.type_, "WorkersAvailable");
    assert_eq!(target.message, lines.join("\n"), "the missing type is that of the source");
}

#[test]
fn a_negative_source_makes_a_negative_target_by_default() {
    let scaling =
        |status, message| Thing::new("Thing", message, vec![condition("ScalingUp", status, message)]);
    let objects = [scaling(T, "busy"), scaling(F, "idle")];
    let result = |strategy: MergeStrategy<'_>| {
        let condition = Aggregate::over("ScalingUp").strategy(strategy).aggregate(&objects).unwrap();
        (condition.status, condition.message)
    };
    let negative = || MergeStrategy::new().negative(["ScalingUp"]);
    assert_eq!(result(negative()), (T, "* Thing busy: busy".to_owned()));
    assert_eq!(result(negative().target(Polarity::Positive)), (F, "* Thing busy: busy".to_owned()));
    assert_eq!(result(MergeStrategy::new()), (F, "* Thing idle: idle".to_owned()));
}

#[test]
fn the_strategy_names_the_reasons() {
    let reasons = Reasons { issue: "NotReady", unknown: "ReadyUnknown", info: "Ready" };
    for (status, reason) in [(F, "NotReady"), (U, "ReadyUnknown"), (T, "Ready")] {
        let aggregate = Aggregate::over("Available").strategy(MergeStrategy::new().reasons(reasons));
        assert_eq!(aggregate.aggregate(&things(&[(status, "")])).unwrap().reason, reason);
    }
}

#[test]
fn objects_behind_pointers_can_be_aggregated() {
    let objects = things(&[(F, "one"), (T, "")]);
    let pointers: Vec<&dyn Conditioned> = objects.iter().map(|object| object as &dyn Conditioned).collect();
    assert_eq!(Aggregate::over("Available").aggregate(pointers).unwrap(), aggregate(&objects));
}

#[test]
fn there_is_nothing_to_say_of_no_objects() {
    let none: [Thing; 0] = [];
    assert_eq!(Aggregate::over("Available").aggregate(&none), Err(MergeError::NoObjects));
}
