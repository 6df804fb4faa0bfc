//! When to try again with a host that does not answer. Pure.
//!
//! A call to a host that is switched off takes seconds and one of the controller's slots. Many such hosts must leave room
//! for the others, so those that have been silent for long are asked less often. The Host controller finds a host that
//! is back; a watch on the Host then wakes its HostMachine at once.

use jiff::Timestamp;
use std::time::Duration;

/// The longest time between two tries.
const LONGEST: Duration = Duration::from_secs(120);
/// Between two tries passes this part of the time that the host has been silent.
const PART: u32 = 8;

/// The time until the next try with a host that has been silent since `since`, at least `first`.
pub(crate) fn after_silence(first: Duration, since: Option<Timestamp>, now: Timestamp) -> Duration {
    let silent =
        since.and_then(|since| Duration::try_from(now.duration_since(since)).ok()).unwrap_or_default();
    (silent / PART).clamp(first, LONGEST.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    #[test]
    fn who_is_silent_for_long_is_asked_less_often() {
        let now = Timestamp::UNIX_EPOCH;
        let first = Duration::from_secs(15);
        let after = |seconds: i64| after_silence(first, Some(now - SignedDuration::from_secs(seconds)), now);
        assert_eq!(after_silence(first, None, now), first);
        assert_eq!((after(-9), after(0), after(100)), (first, first, first));
        assert_eq!(after(400), Duration::from_secs(50));
        assert_eq!(after(90_000), LONGEST);
    }
}
