//! Merge rules: how several conditions become one.

use jiff::Timestamp;
use std::borrow::Cow;
use thiserror::Error;

use super::{Condition, ConditionStatus, NewCondition, Owner, reasons};

/// A condition that is merged, with its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// The object.
    pub owner: Owner<'a>,
    /// Type of the condition.
    pub type_: &'a str,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Machine-readable reason.
    pub reason: &'a str,
    /// Human-readable message.
    pub message: Cow<'a, str>,
    /// Time of the last transition; none for a condition that was never reported.
    pub since: Option<Timestamp>,
}

impl<'a> Source<'a> {
    pub(super) fn reported(owner: Owner<'a>, condition: &'a Condition) -> Self {
        Self {
            owner,
            type_: &condition.type_,
            status: condition.status,
            reason: &condition.reason,
            message: condition.message.as_str().into(),
            since: Some(condition.last_transition_time.0),
        }
    }

    pub(super) fn overridden(owner: Owner<'a>, condition: &'a NewCondition) -> Self {
        Self {
            owner,
            type_: &condition.type_,
            status: condition.status,
            reason: &condition.reason,
            message: condition.message.as_str().into(),
            since: condition.last_transition_time.as_ref().map(|time| time.0),
        }
    }

    pub(super) fn missing(owner: Owner<'a>, type_: &'a str, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            owner,
            type_,
            status: ConditionStatus::Unknown,
            reason: reasons::NOT_YET_REPORTED,
            message: message.into(),
            since: None,
        }
    }
}

/// Priority of a condition in a merge, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// The condition has a bad status.
    Issue,
    /// The condition is unknown.
    Unknown,
    /// The condition has a good status.
    Info,
}

/// Which status of a condition is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Polarity {
    /// True is good.
    Positive,
    /// False is good.
    Negative,
}

/// The reasons of a merged condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasons<'a> {
    /// Reason if there is an issue.
    pub issue: &'a str,
    /// Reason if something is unknown and there is no issue.
    pub unknown: &'a str,
    /// Reason if all conditions have a good status.
    pub info: &'a str,
}

impl Default for Reasons<'_> {
    fn default() -> Self {
        Self {
            issue: reasons::ISSUES_REPORTED,
            unknown: reasons::UNKNOWN_REPORTED,
            info: reasons::INFO_REPORTED,
        }
    }
}

/// An invalid merge. All except [`MergeError::NoObjects`] and [`MergeError::NothingInScope`] are errors of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MergeError {
    /// A summary without condition types.
    #[error("there are no condition types to sum up")]
    NoTypes,
    /// A summary that includes its own result.
    #[error("condition {0} cannot be summed up into itself")]
    IncludesTarget(String),
    /// Two overrides for one condition.
    #[error("condition {0} is overridden twice")]
    OverriddenTwice(String),
    /// An override for a condition that the object does not have.
    #[error("condition {0} is overridden but the object does not report it")]
    OverrideWithoutOriginal(String),
    /// All types in scope are optional, and all are missing.
    #[error("none of the conditions to sum up is reported")]
    NothingInScope,
    /// An aggregation over zero objects.
    #[error("there are no objects to aggregate over")]
    NoObjects,
}

type WeighFn<'a> = Box<dyn Fn(&Source<'_>, Priority) -> Priority + 'a>;
type LinesFn<'a> = Box<dyn Fn(Vec<String>) -> Vec<String> + 'a>;

/// How a merge determines priorities, reasons and messages. The default is for conditions with positive polarity, with
/// generic reasons.
#[derive(Default)]
pub struct MergeStrategy<'a> {
    negative: Vec<&'a str>,
    target: Option<Polarity>,
    reasons: Reasons<'a>,
    weigh: Option<WeighFn<'a>>,
    rewrite: Option<LinesFn<'a>>,
}

impl<'a> MergeStrategy<'a> {
    /// The default strategy.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the condition types of negative polarity.
    pub fn negative(mut self, types: impl IntoIterator<Item = &'a str>) -> Self {
        self.negative.extend(types);
        self
    }

    /// Sets the polarity of the result. Default: positive for a summary, that of the source for an aggregation.
    pub fn target(mut self, polarity: Polarity) -> Self {
        self.target = Some(polarity);
        self
    }

    /// Sets the reasons for the result.
    pub fn reasons(mut self, reasons: Reasons<'a>) -> Self {
        self.reasons = reasons;
        self
    }

    /// Sets a function that determines the priority of a condition. It receives the default priority.
    pub fn weigh(mut self, weigh: impl Fn(&Source<'_>, Priority) -> Priority + 'a) -> Self {
        self.weigh = Some(Box::new(weigh));
        self
    }

    /// Sets a function that changes the lines of a summary's message, one for each condition, before they are joined.
    /// Aggregations do not use it.
    pub fn rewrite(mut self, rewrite: impl Fn(Vec<String>) -> Vec<String> + 'a) -> Self {
        self.rewrite = Some(Box::new(rewrite));
        self
    }

    pub(super) fn polarity_of(&self, type_: &str) -> Polarity {
        if self.negative.contains(&type_) { Polarity::Negative } else { Polarity::Positive }
    }

    pub(super) fn priority_of(&self, source: &Source<'_>) -> Priority {
        let default =
            match (source.status, self.polarity_of(source.type_)) {
                (ConditionStatus::Unknown, _) => Priority::Unknown,
                (ConditionStatus::True, Polarity::Positive)
                | (ConditionStatus::False, Polarity::Negative) => Priority::Info,
                (ConditionStatus::False, Polarity::Positive)
                | (ConditionStatus::True, Polarity::Negative) => Priority::Issue,
            };
        self.weigh.as_ref().map_or(default, |weigh| weigh(source, default))
    }

    /// Status of the result for the worst priority.
    pub(super) fn status(&self, worst: Priority, usual: Polarity) -> ConditionStatus {
        let positive = self.target.unwrap_or(usual) == Polarity::Positive;
        match worst {
            Priority::Issue => ConditionStatus::from(!positive),
            Priority::Unknown => ConditionStatus::Unknown,
            Priority::Info => ConditionStatus::from(positive),
        }
    }

    /// Reason of the result for the worst priority.
    pub(super) fn reason(&self, worst: Priority) -> &'a str {
        match worst {
            Priority::Issue => self.reasons.issue,
            Priority::Unknown => self.reasons.unknown,
            Priority::Info => self.reasons.info,
        }
    }

    pub(super) fn rewritten(&self, lines: Vec<String>) -> Vec<String> {
        match &self.rewrite {
            Some(rewrite) => rewrite(lines),
            None => lines,
        }
    }
}
