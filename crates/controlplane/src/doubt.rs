//! When a reconcile must not use the cache.
//!
//! The result of a write of this process is in its cache. If the response to a write is lost, the write may have
//! succeeded, and the cache does not have it before the watch delivers it: a second gate could be opened beside an open
//! one. So after a failure the next reconcile of the same control plane reads everything live.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use capstan_controller::error::{Error, Result};

/// Control planes whose last reconcile has failed or was interrupted, by UID.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<HashSet<String>>);

impl Doubts {
    /// Begins a reconcile. Returns whether it must read everything live.
    pub(crate) fn begin(&self, uid: &str) -> bool {
        // In doubt until it has ended well.
        !self.lock().insert(uid.to_owned())
    }

    /// Ends a reconcile.
    pub(crate) fn end<T>(&self, uid: &str, ended: &Result<T>) {
        // A rejected request is an error of the user, and no doubt about the cache.
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
