//! Records when the update hook may be called again.

use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::Mutex;

/// The time before which an extension asked not to be called again, and its message, by UID of the Machine.
#[derive(Debug, Default)]
pub(in crate::machine) struct Calls(Mutex<HashMap<String, (Timestamp, Option<String>)>>);

impl Calls {
    pub(super) fn waits(&self, machine: &str, now: Timestamp) -> Option<(SignedDuration, Option<String>)> {
        let (until, said) = self.lock().get(machine).cloned()?;
        let left = until.duration_since(now);
        left.is_positive().then_some((left, said))
    }

    pub(super) fn answered(&self, machine: &str, until: Timestamp, said: Option<String>, now: Timestamp) {
        let mut calls = self.lock();
        calls.retain(|_, (until, _)| *until > now);
        calls.insert(machine.to_owned(), (until, said));
    }

    pub(super) fn forget(&self, machine: &str) {
        self.lock().remove(machine);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Timestamp, Option<String>)>> {
        // What is inside only saves calls: a panic elsewhere has not broken it.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_not_called_before_its_time() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let calls = Calls::default();
        assert_eq!(calls.waits("m", at(0)), None);
        calls.answered("m", at(10), Some("half".to_owned()), at(0));
        assert_eq!(calls.waits("m", at(4)), Some((SignedDuration::from_secs(6), Some("half".to_owned()))));
        assert_eq!(calls.waits("m", at(10)), None);
        assert_eq!(calls.waits("other", at(4)), None);
        calls.answered("other", at(90), None, at(50));
        assert_eq!(calls.lock().len(), 1, "what is over is forgotten");
        calls.forget("other");
        assert_eq!(calls.waits("other", at(60)), None);
    }
}
