//! Records when a slow step of a Machine may be repeated: a call of the update hook, a drain, a look at volumes.

use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::Mutex;

/// The time before which a step is not repeated, and what it said, by UID of the Machine.
#[derive(Debug, Default)]
pub(in crate::machine) struct Pauses(Mutex<HashMap<String, (Timestamp, Option<String>)>>);

impl Pauses {
    pub(super) fn waits(&self, machine: &str, now: Timestamp) -> Option<(SignedDuration, Option<String>)> {
        let (until, said) = self.lock().get(machine).cloned()?;
        let left = until.duration_since(now);
        left.is_positive().then_some((left, said))
    }

    pub(super) fn answered(&self, machine: &str, until: Timestamp, said: Option<String>, now: Timestamp) {
        let mut pauses = self.lock();
        pauses.retain(|_, (until, _)| *until > now);
        pauses.insert(machine.to_owned(), (until, said));
    }

    pub(super) fn forget(&self, machine: &str) {
        self.lock().remove(machine);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Timestamp, Option<String>)>> {
        // What is inside only saves requests: a panic elsewhere has not broken it.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_not_repeated_before_its_time() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let pauses = Pauses::default();
        assert_eq!(pauses.waits("m", at(0)), None);
        pauses.answered("m", at(10), Some("half".to_owned()), at(0));
        assert_eq!(pauses.waits("m", at(4)), Some((SignedDuration::from_secs(6), Some("half".to_owned()))));
        assert_eq!(pauses.waits("m", at(10)), None);
        assert_eq!(pauses.waits("other", at(4)), None);
        pauses.answered("other", at(90), None, at(50));
        assert_eq!(pauses.lock().len(), 1, "what is over is forgotten");
        pauses.forget("other");
        assert_eq!(pauses.waits("other", at(60)), None);
    }
}
