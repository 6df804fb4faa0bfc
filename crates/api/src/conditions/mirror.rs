//! Mirror: copies one condition of an object to another object, as a Cluster does with its infrastructure.

use super::{Condition, ConditionStatus, Conditioned, NewCondition, get, reasons};

/// A mirror of a condition.
#[derive(Clone, Debug)]
pub struct Mirror<'a> {
    source: &'a str,
    target: &'a str,
    fallback: Option<(ConditionStatus, String, String)>,
}

impl<'a> Mirror<'a> {
    /// Mirrors a condition type to the same type.
    pub fn of(type_: &'a str) -> Self {
        Self { source: type_, target: type_, fallback: None }
    }

    /// Sets the type of the resulting condition.
    pub fn to(mut self, type_: &'a str) -> Self {
        self.target = type_;
        self
    }

    /// Sets the status, reason and message to use if the object does not have the condition. Default: Unknown.
    pub fn fallback(
        mut self,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        self.fallback = Some((status.into(), reason.into(), message.into()));
        self
    }

    /// Mirrors the condition of an object.
    pub fn mirror<T: Conditioned + ?Sized>(&self, object: &T) -> NewCondition {
        self.mirror_condition(get(object, self.source))
    }

    /// Mirrors a condition that was already looked up, if there is one.
    ///
    /// The transition time is copied too: it is the time of the original change.
    pub fn mirror_condition(&self, condition: Option<&Condition>) -> NewCondition {
        if let Some(condition) = condition {
            return NewCondition { type_: self.target.to_owned(), ..NewCondition::from(condition.clone()) };
        }
        if let Some((status, reason, message)) = &self.fallback {
            return NewCondition::new(self.target, *status, reason).message(message);
        }
        NewCondition::new(self.target, ConditionStatus::Unknown, reasons::NOT_YET_REPORTED)
            .message(format!("Condition {} not yet reported", self.source))
    }
}
