//! One condition of one object, repeated on another: how a Cluster shows what its infrastructure says.

use super::{Condition, ConditionStatus, Conditioned, NewCondition, get, reasons};

/// A mirror to be held up to an object.
#[derive(Clone, Debug)]
pub struct Mirror<'a> {
    source: &'a str,
    target: &'a str,
    fallback: Option<(ConditionStatus, String, String)>,
}

impl<'a> Mirror<'a> {
    /// A mirror of a condition type, under the same type.
    pub fn of(type_: &'a str) -> Self {
        Self { source: type_, target: type_, fallback: None }
    }

    /// The type of the resulting condition.
    pub fn to(mut self, type_: &'a str) -> Self {
        self.target = type_;
        self
    }

    /// What to say if the object does not report the condition, rather than that it is unknown.
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

    /// Mirrors a condition that has been looked up already, perhaps in vain.
    ///
    /// The transition time comes along: it says when the thing itself changed, not when that was noticed.
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
