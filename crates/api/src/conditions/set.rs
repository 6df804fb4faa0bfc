//! Setting a condition of an object, by the rules of [`super`].

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Condition, ConditionStatus, Conditioned, sort};

/// A condition to set: the fields that the caller provides. [`set`] adds the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// Type of the condition.
    pub type_: String,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Machine-readable reason in CamelCase.
    pub reason: String,
    /// Human-readable message. May be empty.
    pub message: String,
    /// Transition time. Used only if the status changes. Default: now.
    pub last_transition_time: Option<Time>,
}

impl NewCondition {
    /// A condition without a message.
    pub fn new(
        type_: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: String::new(),
            last_transition_time: None,
        }
    }

    /// Sets the message.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets the transition time.
    pub fn since(mut self, time: Time) -> Self {
        self.last_transition_time = Some(time);
        self
    }
}

/// Drops the generation, which [`set`] adds.
impl From<Condition> for NewCondition {
    fn from(condition: Condition) -> Self {
        Self {
            type_: condition.type_,
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
            last_transition_time: Some(condition.last_transition_time),
        }
    }
}

/// Sets a condition of an object, and returns whether the object changed.
///
/// `now` is the transition time if the condition is new or its status changes, and the condition has no transition
/// time.
pub fn set<T: Conditioned + ?Sized>(object: &mut T, condition: NewCondition, now: Timestamp) -> bool {
    let condition = Condition {
        type_: condition.type_,
        status: condition.status,
        observed_generation: object.generation(),
        last_transition_time: condition.last_transition_time.unwrap_or(Time(now)),
        reason: condition.reason,
        message: condition.message,
    };
    let conditions = object.conditions_mut();
    let changed = upsert(conditions, condition);
    if changed {
        sort(conditions);
    }
    changed
}

/// Deletes a condition of an object, and returns whether it existed.
pub fn delete<T: Conditioned + ?Sized>(object: &mut T, type_: &str) -> bool {
    // Looking first keeps an object without a status from getting an empty one.
    let present = object.conditions().iter().any(|condition| condition.type_ == type_);
    if present {
        object.conditions_mut().retain(|condition| condition.type_ != type_);
    }
    present
}

/// Sets a condition in a list without sorting it, and returns whether the list changed.
pub(super) fn upsert(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
    // The wire has whole seconds and leaves out generation zero. What is in memory must equal what is read
    // back, else every reconcile would see a change.
    new.last_transition_time = Time(whole_seconds(new.last_transition_time.0));
    new.observed_generation = new.observed_generation.filter(|generation| *generation != 0);

    let Some(old) = conditions.iter_mut().find(|old| old.type_ == new.type_) else {
        conditions.push(new);
        return true;
    };
    if old.has_same_state(&new) {
        return false;
    }
    if old.status == new.status {
        new.last_transition_time = old.last_transition_time.clone();
    }
    *old = new;
    true
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    // Seconds and their fraction have the same sign, so times before 1970 are rounded down by hand.
    let second = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
    // Fails only in the first second that can be represented at all.
    Timestamp::from_second(second).unwrap_or(time)
}
