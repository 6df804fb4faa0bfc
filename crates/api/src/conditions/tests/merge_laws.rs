//! Laws of summing up and aggregating.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::fixtures::{F, T, Thing, U, at, condition};
use super::laws::any_status;
use crate::conditions::{
    Aggregate, ConditionStatus, MergeStrategy, NewCondition, Polarity, Priority, Summary,
};

/// Positive polarity, except for the last.
const TYPES: [&str; 4] = ["A", "B", "C", "Negative"];

fn strategy() -> MergeStrategy<'static> {
    MergeStrategy::new().negative(["Negative"])
}

fn any_message() -> impl Strategy<Value = &'static str> {
    select(&["", "m", "* n", "o\n* p", "q"])
}

/// For each type, what the object reports, if anything.
fn any_reports() -> impl Strategy<Value = Vec<Option<(ConditionStatus, &'static str)>>> {
    vec(option::weighted(0.8, (any_status(), any_message())), TYPES.len())
}

fn object(reports: &[Option<(ConditionStatus, &'static str)>]) -> Thing {
    let conditions = TYPES
        .iter()
        .zip(reports)
        .filter_map(|(type_, report)| report.map(|(status, message)| condition(type_, status, message)));
    Thing::new("Thing", "a", conditions.collect())
}

fn priority(type_: &str, report: Option<(ConditionStatus, &str)>) -> Priority {
    match report {
        None | Some((U, _)) => Priority::Unknown,
        Some((status, _)) if (status == T) == (type_ != "Negative") => Priority::Info,
        Some(_) => Priority::Issue,
    }
}

/// Up to nine objects with distinct names, of a few kinds, some of them control plane machines.
fn any_objects() -> impl Strategy<Value = Vec<Thing>> {
    let any_object = (
        select(&["Machine", "MachineSet", "Widget"]),
        any::<bool>(),
        option::weighted(0.8, (any_status(), any_message(), 0..3i64)),
    );
    vec(any_object, 1..10).prop_map(|objects| {
        let objects = objects.into_iter().enumerate().map(|(i, (kind, labelled, report))| {
            let conditions = report.map(|(status, message, second)| {
                let mut condition = condition("A", status, message);
                condition.last_transition_time = Time(at(second));
                condition
            });
            let is_control_plane_machine = labelled && kind == "Machine";
            Thing {
                is_control_plane_machine,
                ..Thing::new(kind, format!("o{i}"), conditions.into_iter().collect())
            }
        });
        objects.collect()
    })
}

fn aggregate(objects: &[Thing]) -> NewCondition {
    Aggregate::over("A").aggregate(objects).unwrap()
}

proptest! {
    #[test]
    fn a_summary_is_as_bad_as_the_worst_condition(reports in any_reports()) {
        let summary = Summary::over(TYPES).strategy(strategy()).summarize(&object(&reports), "Ready").unwrap();
        let worst = TYPES.iter().zip(&reports).map(|(type_, report)| priority(type_, *report)).min().unwrap();
        let (status, reason) = match worst {
            Priority::Issue => (F, "IssuesReported"),
            Priority::Unknown => (U, "UnknownReported"),
            Priority::Info => (T, "InfoReported"),
        };
        prop_assert_eq!((summary.status, summary.reason.as_str()), (status, reason));
    }

    #[test]
    fn a_summary_names_every_condition_that_is_not_good(reports in any_reports()) {
        let summary = Summary::over(TYPES).strategy(strategy()).summarize(&object(&reports), "Ready").unwrap();
        for (type_, report) in TYPES.iter().zip(&reports) {
            let is_listed = summary.message.lines().any(|line| line.starts_with(&format!("* {type_}:")));
            match priority(type_, *report) {
                Priority::Issue | Priority::Unknown => prop_assert!(is_listed, "{}", type_),
                Priority::Info => {
                    let has_message = report.is_some_and(|(_, message)| !message.is_empty());
                    prop_assert_eq!(is_listed, has_message && summary.status == T, "{}", type_);
                }
            }
        }
    }

    #[test]
    fn a_summary_depends_on_the_order_of_types_only_in_the_order_of_lines(
        reports in any_reports(), types in Just(TYPES.to_vec()).prop_shuffle(),
    ) {
        let lines = |types: Vec<&'static str>| {
            let summary = Summary::over(types).strategy(strategy()).summarize(&object(&reports), "Ready").unwrap();
            let mut lines: Vec<_> = summary.message.lines().map(str::to_owned).collect();
            lines.sort();
            (summary.status, summary.reason, lines)
        };
        prop_assert_eq!(lines(types), lines(TYPES.to_vec()));
    }

    #[test]
    fn polarity_and_status_turned_around_together_make_no_difference(reports in any_reports()) {
        let turned: Vec<_> = reports
            .iter()
            .map(|report| report.map(|(status, message)| (match status { T => F, F => T, U => U }, message)))
            .collect();
        let all_but_last = MergeStrategy::new().negative(["A", "B", "C"]);
        prop_assert_eq!(
            Summary::over(TYPES).strategy(strategy()).summarize(&object(&reports), "Ready"),
            Summary::over(TYPES).strategy(all_but_last).summarize(&object(&turned), "Ready")
        );
    }

    #[test]
    fn an_aggregation_does_not_depend_on_the_order_of_objects(
        (objects, shuffled) in any_objects().prop_flat_map(|o| (Just(o.clone()), Just(o).prop_shuffle())),
    ) {
        prop_assert_eq!(aggregate(&objects), aggregate(&shuffled));
    }

    #[test]
    fn an_aggregation_is_as_bad_as_the_worst_object(objects in any_objects()) {
        let worst = objects
            .iter()
            .map(|object| priority("A", object.conditions.first().map(|c| (c.status, c.message.as_str()))))
            .min();
        let status = match worst.unwrap() {
            Priority::Issue => F,
            Priority::Unknown => U,
            Priority::Info => T,
        };
        prop_assert_eq!(aggregate(&objects).status, status);
        let negative = Aggregate::over("A").strategy(MergeStrategy::new().target(Polarity::Negative));
        let turned = match status { T => F, F => T, U => U };
        prop_assert_eq!(negative.aggregate(&objects).unwrap().status, turned);
    }

    #[test]
    fn an_aggregation_accounts_for_every_relevant_object(objects in any_objects()) {
        let result = aggregate(&objects);
        let expected = objects.iter().filter(|object| match object.conditions.first() {
            None => true,
            Some(condition) if condition.status == T => result.status == T && !condition.message.is_empty(),
            Some(_) => true,
        });
        // Nested messages are indented, so lines about objects are those that start at the margin.
        let listed: usize = result.message.lines().filter(|line| !line.starts_with(' ')).map(listed_in).sum();
        prop_assert_eq!(listed, expected.count(), "{}", result.message);
        let shown = result.message.lines().filter(|line| line.starts_with("* ")).count();
        prop_assert!(shown <= 3, "{}", result.message);
    }
}

/// How many objects a line of an aggregated message speaks of.
fn listed_in(line: &str) -> usize {
    if let Some(rest) = line.strip_prefix("And ") {
        return rest.split(' ').next().unwrap().parse().unwrap();
    }
    let names = line.strip_prefix("* ").unwrap().split_once(':').unwrap().0;
    match names.split_once(", ... (") {
        Some((_, more)) => 3 + more.strip_suffix(" more)").unwrap().parse::<usize>().unwrap(),
        None => names.matches(',').count() + 1,
    }
}
