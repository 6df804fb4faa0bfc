//! What has happened to an object of the infrastructure provider, for people who describe it.
//!
//! News follow from a write that succeeded, or from a condition that has turned true, which is written at once: a status that
//! says only other words may be held back, and would be news at every look until it is written. A reconcile that changes
//! nothing has none. Texts are those of conditions without the output of commands: no secret is in them.

use capstan_controller::events::Tone;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) tone: Tone,
    /// What has happened, as one word.
    pub(crate) reason: &'static str,
    /// The same for people.
    pub(crate) message: String,
}

impl News {
    /// As it should be.
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { tone: Tone::Normal, reason, message: message.into() }
    }

    /// A person may have to act.
    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { tone: Tone::Warning, reason, message: message.into() }
    }
}

/// The first line: what commands have printed comes after it.
pub(crate) fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}
