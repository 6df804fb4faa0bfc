//! Many conditions of one object.

use super::fixtures::{F, T, Thing, U, at, condition};
use crate::conditions::{
    Condition, ConditionStatus, MergeError, MergeStrategy, NewCondition, Polarity, Priority, Reasons, Summary,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A summary over `A`, `B` and `!C`, the last with negative polarity.
fn abc() -> Summary<'static> {
    Summary::over(["A", "B", "!C"]).strategy(MergeStrategy::new().negative(["!C"]))
}

fn summarize(summary: &Summary<'_>, conditions: Vec<Condition>) -> Result<NewCondition, MergeError> {
    summary.summarize(&Thing::new("Thing", "a", conditions), "Available")
}

fn outcome(status: ConditionStatus, reason: &str, message: &str) -> Result<NewCondition, MergeError> {
    Ok(NewCondition::new("Available", status, reason).message(message))
}

#[test]
fn issues_beat_unknowns_and_unknowns_beat_good_news() {
    let cases = [
        // One issue, of each polarity, and without a message.
        ((T, "a"), (T, "b"), (T, "c"), F, "IssuesReported", "* !C: c"),
        ((T, "a"), (F, "b"), (F, "c"), F, "IssuesReported", "* B: b"),
        ((T, ""), (T, ""), (T, ""), F, "IssuesReported", "* !C: Reason-!C"),
        // Several lines stand in the order of the types, whatever their priority.
        ((T, "a"), (F, "b"), (T, "c"), F, "IssuesReported", "* B: b\n* !C: c"),
        ((U, "a"), (F, "b"), (T, "c"), F, "IssuesReported", "* A: a\n* B: b\n* !C: c"),
        // Unknown without an issue.
        ((T, "a"), (T, "b"), (U, "c"), U, "UnknownReported", "* !C: c"),
        ((T, "a"), (U, ""), (U, "c"), U, "UnknownReported", "* B: Reason-B\n* !C: c"),
        // All is well, and says so only if there is something to say.
        ((T, ""), (T, "b"), (F, "c"), T, "InfoReported", "* B: b\n* !C: c"),
        ((T, ""), (T, ""), (F, ""), T, "InfoReported", ""),
    ];
    for (a, b, c, status, reason, message) in cases {
        let conditions = vec![condition("B", b.0, b.1), condition("A", a.0, a.1), condition("!C", c.0, c.1)];
        assert_eq!(summarize(&abc(), conditions), outcome(status, reason, message));
    }
}

#[test]
fn lists_in_messages_are_nested() {
    let conditions = vec![
        condition("A", F, "* one\n* two"),
        condition("B", F, "intro\n* one"),
        condition("!C", T, "plain"),
    ];
    let message = "* A:\n  * one\n  * two\n* B:\n  * intro\n    * one\n* !C: plain";
    assert_eq!(summarize(&abc(), conditions), outcome(F, "IssuesReported", message));
}

#[test]
fn a_missing_condition_is_unknown_unless_it_may_be_missing() {
    let a = || vec![condition("A", T, "a")];
    let both = "* B: Condition not yet reported\n* !C: Condition not yet reported";
    assert_eq!(summarize(&abc(), a()), outcome(U, "UnknownReported", both));

    let only_c = "* !C: Condition not yet reported";
    assert_eq!(summarize(&abc().ignore_if_missing(["B"]), a()), outcome(U, "UnknownReported", only_c));

    let none = abc().ignore_if_missing(["B", "!C"]);
    assert_eq!(summarize(&none, a()), outcome(T, "InfoReported", "* A: a"));
    let reported = vec![condition("A", T, "a"), condition("B", F, "b")];
    assert_eq!(summarize(&none, reported), outcome(F, "IssuesReported", "* B: b"), "reported counts");
}

#[test]
fn conditions_out_of_scope_do_not_count() {
    let conditions = vec![condition("A", T, "a"), condition("Other", F, "other")];
    assert_eq!(summarize(&Summary::over(["A"]), conditions), outcome(T, "InfoReported", "* A: a"));
}

#[test]
fn a_type_named_twice_stands_where_it_is_named_last() {
    let conditions = vec![condition("A", F, "a"), condition("B", F, "b")];
    assert_eq!(
        summarize(&Summary::over(["A", "B", "A"]), conditions),
        outcome(F, "IssuesReported", "* B: b\n* A: a")
    );
}

#[test]
fn an_override_is_taken_instead_of_what_the_object_reports() {
    let instead = NewCondition::new("!C", false, "Other").message("c, in short").since(Time(at(0)));
    let summary = Summary::over(["A", "!C"])
        .strategy(MergeStrategy::new().negative(["!C"]))
        .overriding([instead, NewCondition::new("Out", false, "OfScope")]);
    let conditions = vec![condition("A", T, ""), condition("!C", T, "c at length"), condition("Out", T, "")];
    assert_eq!(summarize(&summary, conditions), outcome(T, "InfoReported", "* !C: c, in short"));
}

#[test]
fn the_strategy_names_the_reasons() {
    let reasons = Reasons { issue: "NotReady", unknown: "ReadyUnknown", info: "Ready" };
    let summary = Summary::over(["A"]).strategy(MergeStrategy::new().reasons(reasons));
    for (status, reason) in [(F, "NotReady"), (U, "ReadyUnknown"), (T, "Ready")] {
        assert_eq!(summarize(&summary, vec![condition("A", status, "a")]).unwrap().reason, reason);
    }
}

#[test]
fn the_strategy_can_weigh_a_condition_differently_and_leave_the_rest() {
    let strategy = MergeStrategy::new().negative(["!C"]).weigh(|source, default| {
        if source.type_ == "A" && source.reason == "Gone" { Priority::Info } else { default }
    });
    let summary = Summary::over(["A", "B", "!C"]).strategy(strategy);
    let conditions =
        |reason| vec![condition("A", U, "a").because(reason), condition("B", T, ""), condition("!C", F, "")];
    assert_eq!(summarize(&summary, conditions("Gone")), outcome(T, "InfoReported", "* A: a"));
    assert_eq!(summarize(&summary, conditions("Late")), outcome(U, "UnknownReported", "* A: a"));
}

#[test]
fn the_strategy_can_rewrite_the_lines() {
    let strategy =
        MergeStrategy::new().rewrite(|lines| vec![format!("{} lines: {}", lines.len(), lines.join("|"))]);
    let summary = Summary::over(["A", "B"]).strategy(strategy);
    let conditions = vec![condition("A", F, "a"), condition("B", F, "* b")];
    assert_eq!(summarize(&summary, conditions), outcome(F, "IssuesReported", "2 lines: * A: a|* B:\n  * b"));
}

#[test]
fn a_negative_target_turns_the_status_around_and_leaves_out_good_news() {
    let strategy = || MergeStrategy::new().target(Polarity::Negative);
    let summary = Summary::over(["A"]).strategy(strategy());
    assert_eq!(summarize(&summary, vec![condition("A", F, "a")]), outcome(T, "IssuesReported", "* A: a"));
    assert_eq!(summarize(&summary, vec![condition("A", U, "a")]), outcome(U, "UnknownReported", "* A: a"));
    assert_eq!(summarize(&summary, vec![condition("A", T, "a")]), outcome(F, "InfoReported", ""));
}

#[test]
fn a_summary_that_makes_no_sense_is_an_error() {
    let instead = || NewCondition::new("A", true, "Other");
    let cases = [
        (Summary::over([]), MergeError::NoTypes),
        (Summary::over(["A", "Available"]), MergeError::IncludesTarget("Available".to_owned())),
        (
            Summary::over(["A"]).overriding([instead(), instead()]),
            MergeError::OverriddenTwice("A".to_owned()),
        ),
        (
            Summary::over(["A"]).overriding([NewCondition::new("B", true, "Other")]),
            MergeError::OverrideWithoutOriginal("B".to_owned()),
        ),
        (Summary::over(["B"]).ignore_if_missing(["B"]), MergeError::NothingInScope),
    ];
    for (summary, error) in cases {
        assert_eq!(summarize(&summary, vec![condition("A", T, "a")]), Err(error));
    }
}
