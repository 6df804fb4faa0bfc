//! Waits: why an object does not make progress. One type for the controllers that write it and for all readers.
//!
//! A controller creates a [`Wait`] from a [cause](causes) and writes it to a condition ([`Wait::condition`]). It is
//! stored only there. All others read it from the condition ([`Wait::read`]): the events and metrics of the managers,
//! `capstan why` and `capstan describe`. The owner, which must act, is not stored: it follows from the cause.

pub mod causes;
mod page;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

pub use page::page;

use crate::conditions::{Condition, ConditionStatus, NewCondition, types};

/// Conditions with negative polarity: false is the good status.
pub const NEGATIVE: [&str; 7] = [
    types::PAUSED,
    types::DELETING,
    types::ROLLING_OUT,
    types::SCALING_UP,
    types::SCALING_DOWN,
    "Updating",
    types::REMEDIATING,
];

/// Separates a message from the time of the next attempt.
const RETRY: &str = "; next attempt at ";

/// The person or component that must act to end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "who", content = "remedy", rename_all = "camelCase")]
pub enum Owner {
    /// A person, because no controller can resolve the wait. The text says what to do.
    Person(&'static str),
    /// The core controllers of Cluster API.
    Core,
    /// The infrastructure provider.
    Infrastructure,
    /// The bootstrap provider.
    Bootstrap,
    /// The control plane provider.
    ControlPlane,
    /// The machine.
    Machine,
    /// The agent on the machine.
    Agent,
    /// The reason is not in the catalogue: another provider has reported it.
    Unknown,
}

impl Owner {
    /// Short name, used as a metric label.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Person(_) => "person",
            Self::Core => "core",
            Self::Infrastructure => "infrastructure",
            Self::Bootstrap => "bootstrap",
            Self::ControlPlane => "control-plane",
            Self::Machine => "machine",
            Self::Agent => "agent",
            Self::Unknown => "unknown",
        }
    }
}

/// Text for users.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(remedy) => write!(f, "you: {remedy}"),
            Self::Core => f.write_str("core"),
            Self::Infrastructure => f.write_str("infrastructure provider"),
            Self::Bootstrap => f.write_str("bootstrap provider"),
            Self::ControlPlane => f.write_str("control plane provider"),
            Self::Machine => f.write_str("the machine"),
            Self::Agent => f.write_str("the machine's agent"),
            Self::Unknown => f.write_str("unknown (the reason is not one of Capstan's)"),
        }
    }
}

/// A reason to wait, and its owner. See [`causes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Condition type for which the cause is valid; all types if unset.
    on: Option<&'static str>,
    /// Reason of the condition.
    pub reason: &'static str,
    /// The person or component that must act.
    pub owner: Owner,
}

impl Cause {
    const fn new(reason: &'static str, owner: Owner) -> Self {
        Self { on: None, reason, owner }
    }

    const fn person(reason: &'static str, remedy: &'static str) -> Self {
        Self::new(reason, Owner::Person(remedy))
    }

    /// Limits the cause to one condition type, because the reason has another meaning in others.
    const fn on(self, type_: &'static str) -> Self {
        Self { on: Some(type_), ..self }
    }

    /// The cause for a reason in a condition of this type, if it is in the catalogue.
    pub fn of(type_: &str, reason: &str) -> Option<&'static Self> {
        let fits = |cause: &&Self| cause.reason == reason && cause.on.is_none_or(|on| on == type_);
        causes::ALL.iter().filter(fits).max_by_key(|cause| cause.on.is_some())
    }
}

/// Why an object does not make progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// Machine-readable reason in CamelCase.
    pub reason: Cow<'static, str>,
    /// The person or component that must act.
    pub owner: Owner,
    /// Time at which the wait began, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Human-readable explanation.
    pub message: String,
    /// Time of the next attempt, if there is one. A wait that ends with an event has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

impl Wait {
    /// A wait with this cause.
    pub fn new(cause: &Cause, message: impl Into<String>) -> Self {
        let (reason, message) = (Cow::Borrowed(cause.reason), message.into());
        Self { reason, owner: cause.owner, since: None, message, retry_at: None }
    }

    /// Sets the time of the next attempt.
    #[must_use]
    pub fn until(self, retry_at: Timestamp) -> Self {
        Self { retry_at: Some(retry_at), ..self }
    }

    /// The wait as a condition: with status false, or true if the type is one of [`NEGATIVE`].
    pub fn condition(&self, type_: &str) -> NewCondition {
        let message = match self.retry_at {
            Some(at) => format!("{}{RETRY}{}", self.message, whole_seconds(at)),
            None => self.message.clone(),
        };
        NewCondition::new(type_, NEGATIVE.contains(&type_), self.reason.clone()).message(message)
    }

    /// The wait in a condition; none if the condition has its good status.
    pub fn read(condition: &Condition) -> Option<Self> {
        let Condition { type_, status, reason, message, last_transition_time, .. } = condition;
        Self::of(type_, *status, reason, message, Some(last_transition_time.0))
    }

    /// As [`read`](Self::read), for an untyped condition of any provider's object. Missing fields are read as empty.
    pub fn read_untyped(condition: &Value) -> Option<Self> {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let status = match text("status") {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        };
        let since = text("lastTransitionTime").parse().ok();
        Self::of(text("type"), status, text("reason"), text("message"), since)
    }

    fn of(
        type_: &str,
        status: ConditionStatus,
        reason: &str,
        message: &str,
        since: Option<Timestamp>,
    ) -> Option<Self> {
        let wanted = match NEGATIVE.contains(&type_) {
            true => ConditionStatus::False,
            false => ConditionStatus::True,
        };
        if status == wanted {
            return None;
        }
        let owner = Cause::of(type_, reason).map_or(Owner::Unknown, |cause| cause.owner);
        let (message, retry_at) = split(message);
        let (reason, message) = (Cow::Owned(reason.to_owned()), message.to_owned());
        Some(Self { reason, owner, since, message, retry_at })
    }

    /// Whether only a person can end the wait. A wait with a next attempt may end without one.
    pub const fn needs_person(&self) -> bool {
        matches!(self.owner, Owner::Person(_)) && self.retry_at.is_none()
    }
}

fn split(message: &str) -> (&str, Option<Timestamp>) {
    match message.rsplit_once(RETRY).map(|(message, at)| (message, at.parse().ok())) {
        Some((message, Some(at))) => (message, Some(at)),
        _ => (message, None),
    }
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use std::collections::BTreeSet;

    fn stored(new: NewCondition) -> Condition {
        Condition {
            type_: new.type_,
            status: new.status,
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            reason: new.reason,
            message: new.message,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let at: Timestamp = "2026-11-17T03:00:00.5Z".parse().expect("a time");
        for (type_, wait) in [
            ("HostClaimed", Wait::new(&causes::NO_HOST_AVAILABLE, "0 of 3 hosts fit")),
            ("HealedInPlace", Wait::new(&causes::HEALING, "restarts again").until(at)),
            ("HealedInPlace", Wait::new(&causes::HEALING, "")),
            ("Deleting", Wait::new(&causes::RESETTING_HOST, "Host h is being reset")),
        ] {
            let read = Wait::read(&stored(wait.condition(type_))).expect("a wait");
            let since = Some(Timestamp::UNIX_EPOCH);
            let retry_at = wait.retry_at.map(whole_seconds);
            assert_eq!(read, Wait { since, retry_at, ..wait.clone() });
            let untyped = serde_json::to_value(stored(wait.condition(type_))).expect("serialises");
            assert_eq!(Wait::read_untyped(&untyped), Some(read));
        }
    }

    #[test]
    fn what_is_as_it_should_be_waits_for_nothing() {
        assert_eq!(Wait::read(&stored(NewCondition::new("Ready", true, "Ready"))), None);
        assert_eq!(Wait::read(&stored(NewCondition::new("Paused", false, "NotPaused"))), None);
        let paused = Wait::read(&stored(NewCondition::new("Paused", true, "Paused"))).expect("a wait");
        assert!(paused.needs_person());
        let foreign = Wait::read(&stored(NewCondition::new("Ready", false, "TheirReason"))).expect("a wait");
        assert_eq!((foreign.owner, foreign.needs_person()), (Owner::Unknown, false));
    }

    #[test]
    fn words_that_look_like_a_time_are_words() {
        let message = "the log says; next attempt at noon";
        let condition = NewCondition::new("Ready", false, "R").message(message);
        let wait = Wait::read(&stored(condition)).expect("a wait");
        assert_eq!((wait.message.as_str(), wait.retry_at), (message, None));
    }

    #[test]
    fn each_cause_is_known_once() {
        let mut known = BTreeSet::new();
        for cause in causes::ALL {
            assert!(known.insert((cause.on, cause.reason)), "{} is there twice", cause.reason);
            assert_eq!(Cause::of(cause.on.unwrap_or("Any"), cause.reason), Some(cause));
        }
    }
}
