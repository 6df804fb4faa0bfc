//! Delays status changes that only people read, so that intermediate states are not written.
//!
//! While a cluster is created, its objects wait for one thing after the other, and most waits last only a moment. No
//! controller acts on their messages: controllers act on conditions that become true or stop being true, and on the other
//! fields of a status. So a status change that [no controller acts on](is_acted_on) is delayed for
//! [`Limits::status_delay`](crate::queue::Limits) after the last event of the object, and no longer than `longest_status_delay`
//! after the first reconcile that had a change. The next reconcile computes the status again. Nothing is stored for it, and nothing is lost with the process.
//!
//! The reconcile loop ([`crate::run`]) decides whether a change may still be delayed, and gets the result. Without such a
//! loop every change is written at once.

use capstan_api::conditions::{Condition, ConditionStatus, types};
use serde_json::Value;
use std::cell::Cell;
use std::future::Future;

/// Fields of a status that no controller acts on: when it was written, and summaries of other fields.
const DESCRIPTIONS: [&str; 3] = ["conditions", "lastUpdated", "phase"];

/// Conditions with which one controller requests an action of another one: each change of them is written at once.
const REQUESTS: [&str; 2] = ["HealthCheckSucceeded", "OwnerRemediated"];

tokio::task_local! {
    static RECONCILE: CurrentReconcile;
}

struct CurrentReconcile {
    controller: &'static str,
    may_delay: bool,
    summaries: &'static [&'static str],
    has_delayed: Cell<bool>,
}

/// Runs one reconcile of a controller. Returns its result, and whether a status change was delayed. `may_delay` allows that.
/// `summaries` are fields, fields of fields (`initialization.provisioned`) and conditions that no controller acts on.
pub(crate) async fn run<T>(
    controller: &'static str,
    may_delay: bool,
    summaries: &'static [&'static str],
    reconcile: impl Future<Output = T>,
) -> (T, bool) {
    let context = CurrentReconcile { controller, may_delay, summaries, has_delayed: Cell::new(false) };
    let reconcile = async {
        let result = reconcile.await;
        (result, RECONCILE.with(|current| current.has_delayed.get()))
    };
    RECONCILE.scope(context, reconcile).await
}

/// The controller that runs this reconcile, if it is one.
pub(crate) fn controller() -> Option<&'static str> {
    RECONCILE.try_with(|current| current.controller).ok()
}

/// Whether the status has changed and the change is delayed. If so, the loop reconciles the object again in time.
pub(crate) fn is_delayed(before: StatusView<'_>, after: StatusView<'_>) -> bool {
    let differs = before.status != after.status || before.conditions != after.conditions;
    let delayed = RECONCILE.try_with(|current| {
        let delays = current.may_delay && differs && !is_acted_on(before, after, current.summaries);
        current.has_delayed.set(current.has_delayed.get() || delays);
        delays
    });
    delayed.unwrap_or(false)
}

/// A status, for comparison.
#[derive(Clone, Copy)]
pub(crate) struct StatusView<'a> {
    pub(crate) status: &'a Value,
    pub(crate) conditions: &'a [Condition],
}

/// Whether a controller acts on the difference: on a condition that becomes true or stops being true, or on a field that is
/// not a description. The first status of an object is not acted on, unless it says that the object is paused.
fn is_acted_on(before: StatusView<'_>, after: StatusView<'_>, summaries: &[&str]) -> bool {
    let is_first = before.conditions.is_empty();
    let is_description = |name: &str| {
        DESCRIPTIONS.contains(&name) || summaries.contains(&name) || is_first && name == "observedGeneration"
    };
    let fields = |view: StatusView<'_>| -> Vec<(String, Value)> {
        let fields = view.status.as_object().into_iter().flatten();
        let acted_on = fields.filter(|(name, _)| !is_description(name));
        acted_on
            .map(|(name, value)| (name.clone(), without(value, name, summaries)))
            .filter(|(_, value)| *value != Value::Null)
            .collect()
    };
    if fields(before) != fields(after) {
        return true;
    }
    let gone = before.conditions.iter().any(|old| find(after.conditions, &old.type_).is_none());
    let acted_on = after.conditions.iter().filter(|new| !summaries.contains(&new.type_.as_str()));
    let turned = { acted_on }.any(|new| match find(before.conditions, &new.type_) {
        Some(old) if REQUESTS.contains(&new.type_.as_str()) => !old.has_same_state(new),
        None if REQUESTS.contains(&new.type_.as_str()) => true,
        Some(old) => is_true(old) != is_true(new),
        None if is_first => new.type_ == types::PAUSED && is_true(new),
        None => is_true(new),
    });
    gone || turned
}

/// The value of a field without those of its own fields that `summaries` names, as in `initialization.provisioned`. Null if
/// nothing is left.
fn without(value: &Value, name: &str, summaries: &[&str]) -> Value {
    let mut rest = value.clone();
    let inner = summaries.iter().filter_map(|summary| summary.strip_prefix(name)?.strip_prefix('.'));
    for field in inner {
        let Some(fields) = rest.as_object_mut() else { continue };
        if fields.remove(field).is_some() && fields.is_empty() {
            return Value::Null;
        }
    }
    rest
}

fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn is_true(condition: &Condition) -> bool {
    condition.status == ConditionStatus::True
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    fn condition(type_: &str, status: ConditionStatus, message: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status,
            observed_generation: Some(1),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            reason: "Because".to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn only_what_a_controller_acts_on_is_written_at_once() {
        use ConditionStatus::{False, True, Unknown};
        let waits = [condition("Ready", False, "waits for a host")];
        let cases = [
            ("another word", &waits[..], vec![condition("Ready", False, "waits for data")], false),
            ("it is unknown", &waits, vec![condition("Ready", Unknown, "")], false),
            ("it has become true", &waits, vec![condition("Ready", True, "")], true),
            ("it is true no longer", &[condition("Ready", True, "")], waits.to_vec(), true),
            ("it is gone", &waits, vec![], true),
            ("one more that waits", &waits, [&waits[..], &[condition("Known", False, "")]].concat(), false),
            ("one more that is true", &waits, [&waits[..], &[condition("Known", True, "")]].concat(), true),
            ("a request", &waits, [&waits[..], &[condition("OwnerRemediated", False, "")]].concat(), true),
            ("the first description", &[], vec![condition("UpToDate", True, "")], false),
            ("it is paused from the start", &[], vec![condition("Paused", True, "")], true),
            ("a summary", &waits, [&waits[..], &[condition("ScalingUp", True, "")]].concat(), false),
        ];
        for (what, before, after, expected) in cases {
            let status = json!({});
            let before = StatusView { status: &status, conditions: before };
            let after = StatusView { status: &status, conditions: &after };
            assert_eq!(is_acted_on(before, after, &["ScalingUp"]), expected, "{what}");
        }
    }

    #[test]
    fn fields_are_acted_on_unless_they_are_descriptions() {
        let known = [condition("Ready", ConditionStatus::False, "waits")];
        let cases = [
            (json!({}), json!({"lastUpdated": "now"}), false),
            (json!({"replicas": 1}), json!({"replicas": 2}), true),
            (json!({"phase": "Pending"}), json!({"phase": "Running"}), false),
            (json!({"nodeRef": {"name": "a"}}), json!({}), true),
            (json!({"observedGeneration": 1}), json!({"observedGeneration": 2}), true),
            (json!({"workers": {"replicas": 1}}), json!({"workers": {"replicas": 2}}), false),
            (json!({}), json!({"start": {"data": true}}), false),
            (json!({"start": {"data": true}}), json!({"start": {"data": true, "machine": true}}), true),
            (json!({"start": {"data": true}}), json!({}), false),
        ];
        for (before, after, expected) in cases {
            let (was, is) = (&before, &after);
            let view = |status| StatusView { status, conditions: &known };
            assert_eq!(
                is_acted_on(view(was), view(is), &["workers", "start.data"]),
                expected,
                "{before} {after}"
            );
        }
        let (new, seen) = (json!({}), json!({"observedGeneration": 1}));
        let (before, after) =
            (StatusView { status: &new, conditions: &[] }, StatusView { status: &seen, conditions: &known });
        assert!(!is_acted_on(before, after, &[]), "a new object is described for the first time");
    }

    #[tokio::test]
    async fn descriptions_are_delayed_only_in_a_reconcile_that_may_delay() {
        let (empty, waits) = (json!({}), [condition("Ready", ConditionStatus::False, "waits")]);
        let delay = || {
            let before = StatusView { status: &empty, conditions: &[] };
            is_delayed(before, StatusView { status: &empty, conditions: &waits })
        };
        assert!(!delay(), "no loop would reconcile again");
        assert_eq!(run("x", true, &[], async { delay() }).await, (true, true));
        assert_eq!(run("x", false, &[], async { delay() }).await, (false, false));
        assert_eq!(run("x", true, &[], async {}).await, ((), false));
        let same = || {
            is_delayed(
                StatusView { status: &empty, conditions: &waits },
                StatusView { status: &empty, conditions: &waits },
            )
        };
        assert_eq!(run("x", true, &[], async { same() }).await, (false, false), "nothing has changed");
    }
}
