//! Events of the infrastructure provider, for people who describe an object.
//!
//! An Event follows from a write that has succeeded, or from a condition that has become true, which is written at once. It
//! does not follow from other status changes: they may be delayed, and every reconcile until then would create the Event
//! again. A reconcile that changes nothing creates none. Messages are those of conditions, without the output of commands,
//! so no secret is in them.

use capstan_controller::events::Tone;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) tone: Tone,
    /// Reason of the Event.
    pub(crate) reason: &'static str,
    /// Message of the Event.
    pub(crate) message: String,
}

impl News {
    /// A normal Event.
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { tone: Tone::Normal, reason, message: message.into() }
    }

    /// A warning: a person may have to act.
    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { tone: Tone::Warning, reason, message: message.into() }
    }
}

/// The first line of a message; the output of commands follows it.
pub(crate) fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}
