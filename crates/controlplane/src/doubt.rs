//! When memory is not to be trusted.
//!
//! What this process writes is in its memory with the answer. If the answer is lost, the write may have been done all the
//! same, and memory does not know before the watch brings it: a gate could be opened beside one that is open already. So
//! after a failure the next look at the same control plane asks the API server for everything.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use capstan_controller::error::{Error, Result};

/// Control planes whose last look has failed or was cut short, by UID.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<HashSet<String>>);

impl Doubts {
    /// A look begins. Says whether the API server is to be asked for everything.
    pub(crate) fn begin(&self, uid: &str) -> bool {
        // In doubt until it has ended well.
        !self.lock().insert(uid.to_owned())
    }

    /// A look has ended.
    pub(crate) fn end<T>(&self, uid: &str, ended: &Result<T>) {
        // The user's mistake is told in an answer.
        if matches!(ended, Ok(_) | Err(Error::User { .. })) {
            self.lock().remove(uid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        // Each change is whole: a panic elsewhere has not broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_nothing_is_taken_from_memory_until_it_goes_well() {
        let doubts = Doubts::default();
        assert!(!doubts.begin("a"));
        doubts.end::<()>("a", &Err(Error::transient("cannot write", "no answer")));
        assert!(doubts.begin("a") && !doubts.begin("b"));
        doubts.end("a", &Ok(()));
        assert!(!doubts.begin("a"));
        assert!(doubts.begin("b"), "it was cut short");
    }
}
