//! What became of a machine's plan, as conditions tell it.

use jiff::Timestamp;

use crate::annotations::RETRY;
use crate::text::rfc3339;
use crate::wait::Wait;

/// The outcome of planning for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The machine has a plan.
    Planned {
        /// Its revision.
        revision: u64,
        /// What of the configuration is left out of it, and why: the agent does not support it.
        without: Option<String>,
    },
    /// The machine has a plan, which has failed.
    Failed {
        /// Which.
        revision: u64,
        /// The machine's words.
        why: String,
        /// How often it was tried.
        attempts: u32,
        /// When it is tried again; never, if it was tried often enough.
        again: Option<Timestamp>,
    },
    /// There is no plan yet, and why.
    Waiting(Wait),
    /// The machine does not get a plan, because its agent would reject it. Upgrade the agent.
    Unsupported(Wait),
    /// There is no plan until the user changes this field.
    Refused {
        /// Kind, name and path.
        field: String,
        /// What is wrong with it, and the remedy.
        message: String,
    },
}

impl Outcome {
    /// The message about a failed plan, with the time of the retry.
    pub fn failure(&self) -> Option<String> {
        let Self::Failed { again, .. } = self else { return None };
        self.failed(&again.map(|again| format!(", again at {}", rfc3339(again))).unwrap_or_default())
    }

    /// The message without the time.
    pub fn failed_words(&self) -> Option<String> {
        self.failed("")
    }

    fn failed(&self, time: &str) -> Option<String> {
        let Self::Failed { revision, why, attempts, again } = self else { return None };
        let next = match again {
            Some(_) => format!("tried {attempts} times{time}"),
            None => format!(
                "tried {attempts} times and given up: change what it is made from, or set the annotation {RETRY} of \
                 the Machine to another value"
            ),
        };
        Some(format!("Revision {revision} has failed ({next}): {why}"))
    }
}
