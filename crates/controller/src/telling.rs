//! What only tells people how an object stands may wait a little, so that it is told once and not at every step.
//!
//! While a cluster is made, its objects say again and again for what they wait, and most of it is over a moment later. Nobody
//! acts on those words: other controllers act on conditions that become true or stop being true, and on the other fields of
//! a status. So a status that has no [news](is_news) is held back for [`Limits::patience`](crate::queue::Limits) after the last
//! event of the object, and no longer than `longest_patience` after the first reconcile that had something to tell. The next
//! reconcile observes the objects again and writes what is so then; nothing is kept for it, and nothing is lost with the process.
//!
//! The loop that looks at objects ([`crate::run`]) says whether there is still time, and is told that something was held
//! back. Without such a loop everything is written at once.

use capstan_api::conditions::{Condition, ConditionStatus, types};
use serde_json::Value;
use std::cell::Cell;
use std::future::Future;

/// Fields of a status that say when it was written, or sum up the others in a word.
const WORDS: [&str; 3] = ["conditions", "lastUpdated", "phase"];

/// Conditions by which one controller asks another to act: whatever they say is news.
const REQUESTS: [&str; 2] = ["HealthCheckSucceeded", "OwnerRemediated"];

tokio::task_local! {
    static LOOK: Look;
}

struct Look {
    controller: &'static str,
    has_time: bool,
    summaries: &'static [&'static str],
    has_held: Cell<bool>,
}

/// Runs one look of a controller, and says whether something was held back. `has_time` allows it. `summaries` are fields,
/// fields of fields (`initialization.provisioned`) and conditions that no controller acts on.
pub(crate) async fn during<T>(
    controller: &'static str,
    has_time: bool,
    summaries: &'static [&'static str],
    look: impl Future<Output = T>,
) -> (T, bool) {
    let context = Look { controller, has_time, summaries, has_held: Cell::new(false) };
    let reconcile = async {
        let result = look.await;
        (result, LOOK.with(|look| look.has_held.get()))
    };
    LOOK.scope(context, reconcile).await
}

/// Whose look this is, if it is one.
pub(crate) fn controller() -> Option<&'static str> {
    LOOK.try_with(|look| look.controller).ok()
}

/// Whether there is a status to write that is held back now. If so, the loop is told that this object needs another look.
pub(crate) fn is_held_back(before: StatusView<'_>, after: StatusView<'_>) -> bool {
    let differs = before.status != after.status || before.conditions != after.conditions;
    let held = LOOK.try_with(|look| {
        let holds = look.has_time && differs && !is_news(before, after, look.summaries);
        look.has_held.set(look.has_held.get() || holds);
        holds
    });
    held.unwrap_or(false)
}

/// A status as it is compared.
#[derive(Clone, Copy)]
pub(crate) struct StatusView<'a> {
    pub(crate) status: &'a Value,
    pub(crate) conditions: &'a [Condition],
}

/// Whether anybody acts on the difference: a condition that becomes true or stops being true, or any field that is more
/// than words. The first description of an object is none, unless it says that the object is paused.
fn is_news(before: StatusView<'_>, after: StatusView<'_>, summaries: &[&str]) -> bool {
    let is_first = before.conditions.is_empty();
    let is_word = |name: &str| {
        WORDS.contains(&name) || summaries.contains(&name) || is_first && name == "observedGeneration"
    };
    let fields = |view: StatusView<'_>| -> Vec<(String, Value)> {
        let fields = view.status.as_object().into_iter().flatten();
        let acted_on = fields.filter(|(name, _)| !is_word(name));
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
    fn only_what_somebody_acts_on_is_news() {
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
            assert_eq!(is_news(before, after, &["ScalingUp"]), expected, "{what}");
        }
    }

    #[test]
    fn fields_are_news_unless_they_are_for_people() {
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
                is_news(view(was), view(is), &["workers", "start.data"]),
                expected,
                "{before} {after}"
            );
        }
        let (new, seen) = (json!({}), json!({"observedGeneration": 1}));
        let (before, after) =
            (StatusView { status: &new, conditions: &[] }, StatusView { status: &seen, conditions: &known });
        assert!(!is_news(before, after, &[]), "a new object is described for the first time");
    }

    #[tokio::test]
    async fn words_are_held_back_only_during_a_look_that_has_time() {
        let (empty, waits) = (json!({}), [condition("Ready", ConditionStatus::False, "waits")]);
        let hold = || {
            let before = StatusView { status: &empty, conditions: &[] };
            is_held_back(before, StatusView { status: &empty, conditions: &waits })
        };
        assert!(!hold(), "nobody would look again");
        assert_eq!(during("x", true, &[], async { hold() }).await, (true, true));
        assert_eq!(during("x", false, &[], async { hold() }).await, (false, false));
        assert_eq!(during("x", true, &[], async {}).await, ((), false));
        let same = || {
            is_held_back(
                StatusView { status: &empty, conditions: &waits },
                StatusView { status: &empty, conditions: &waits },
            )
        };
        assert_eq!(during("x", true, &[], async { same() }).await, (false, false), "nothing is to be told");
    }
}
