//! Writing a condition onto an object, by the rules of [`super`].

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Condition, ConditionStatus, Conditioned, sort};

/// A condition that is about to be set: all that the caller has to say. The rest is for [`set`] to fill in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// What is observed.
    pub type_: String,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// Why, as one CamelCase word.
    pub reason: String,
    /// Why, for people. May be empty.
    pub message: String,
    /// Since when, if the caller knows better than "now". It counts only if the status changes.
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

    /// The same condition with a message.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The same condition, true since a certain time.
    pub fn since(mut self, time: Time) -> Self {
        self.last_transition_time = Some(time);
        self
    }
}

/// What [`set`] fills in is left out: the generation.
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

/// Sets a condition on an object, and says whether that changed anything.
///
/// `now` is the transition time if the condition is new or changes its status, unless it brings its own.
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

/// Takes a condition away from an object, and says whether it was there.
pub fn delete<T: Conditioned + ?Sized>(object: &mut T, type_: &str) -> bool {
    // Looking first keeps an object without a status from getting an empty one.
    let present = object.conditions().iter().any(|condition| condition.type_ == type_);
    if present {
        object.conditions_mut().retain(|condition| condition.type_ != type_);
    }
    present
}

/// Puts a condition into a list, without sorting it. Says whether anything changed.
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
