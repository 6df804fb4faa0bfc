//! What became of a machine's plan, as conditions tell it.

use jiff::Timestamp;

use crate::annotations::RETRY;
use crate::text::rfc3339;
use crate::wait::Wait;

/// What became of a machine's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has the plan it should have.
    Planned(u64),
    /// It has the plan, and that has failed.
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
    /// Not yet, and why.
    Waiting(Wait),
    /// It cannot have one until the user changes this field.
    Refused {
        /// Kind, name and path.
        field: String,
        /// What is wrong with it, and the remedy.
        message: String,
    },
}

impl Outcome {
    /// What is told of a plan that has failed, and when it is tried again.
    pub fn failure(&self) -> Option<String> {
        let Self::Failed { again, .. } = self else { return None };
        self.failed(&again.map(|again| format!(", again at {}", rfc3339(again))).unwrap_or_default())
    }

    /// The same without the time.
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
