//! The pause before the next call to a host that does not respond. Pure.
//!
//! A call to a host that is switched off takes seconds and one of the controller's slots. Hosts that have not responded
//! for long are called less often, so that many of them leave slots for other hosts. The Host controller finds a host
//! that responds again; a watch on the Host then triggers its HostMachine at once.

use jiff::Timestamp;
use std::time::Duration;

/// The longest pause between two calls.
const LONGEST: Duration = Duration::from_secs(120);
/// The pause is this part of the time since the host stopped responding.
const PART: u32 = 8;

/// The pause before the next call to a host that has not responded since `since`, at least `first`.
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
