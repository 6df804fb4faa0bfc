//! The contact of a machine, from its last heartbeat. Pure.

use jiff::{SignedDuration, Timestamp};

/// An agent is silent after this multiple of the validity of its last heartbeat, so that one late or lost heartbeat has
/// no effect.
const MISSED: i32 = 2;
/// Limits of the validity that a machine may set, in seconds.
const HOLDS: std::ops::RangeInclusive<i32> = 60..=600;

/// Whether an agent contacts the management plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    /// Not known yet, or there has never been a heartbeat.
    Unknown,
    /// The last heartbeat is valid.
    Connected,
    /// There has been no heartbeat since this time.
    Silent(Timestamp),
}

/// The newest heartbeat of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heartbeat {
    /// The time in the Lease, which the machine sets. It distinguishes heartbeats.
    pub(super) renewed: Timestamp,
    /// Validity in seconds, as set by the machine.
    pub(super) holds: i32,
    /// When this process saw it.
    pub(super) seen: Timestamp,
    /// Whether it existed when the process started, so that it may be old.
    pub(super) is_inherited: bool,
}

impl Heartbeat {
    pub(super) fn contact(&self, now: Timestamp) -> Contact {
        let holds = self.holds.clamp(*HOLDS.start(), *HOLDS.end());
        if now.duration_since(self.seen) > SignedDuration::from_secs(i64::from(holds * MISSED)) {
            // An inherited one was seen long after it was written.
            let last = if self.is_inherited { self.renewed.min(self.seen) } else { self.seen };
            return Contact::Silent(last);
        }
        if self.is_inherited { Contact::Unknown } else { Contact::Connected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn two_missed_intervals_are_silence() {
        let beat = |holds, is_inherited| Heartbeat { renewed: at(900), holds, seen: at(1000), is_inherited };
        for (case, beat, now, expected) in [
            ("just seen", beat(60, false), 1000, Contact::Connected),
            ("late", beat(60, false), 1120, Contact::Connected),
            ("missed", beat(60, false), 1121, Contact::Silent(at(1000))),
            ("a longer interval", beat(300, false), 1600, Contact::Connected),
            ("a longer interval, missed", beat(300, false), 1601, Contact::Silent(at(1000))),
            ("an endless interval", beat(i32::MAX, false), 2201, Contact::Silent(at(1000))),
            ("no interval", beat(-1, false), 1120, Contact::Connected),
            ("found at the start", beat(60, true), 1120, Contact::Unknown),
            ("found at the start, and none since", beat(60, true), 1121, Contact::Silent(at(900))),
        ] {
            assert_eq!(beat.contact(at(now)), expected, "{case}");
        }
        let of_the_future = Heartbeat { renewed: at(99_999), ..beat(60, true) };
        assert_eq!(of_the_future.contact(at(1121)), Contact::Silent(at(1000)));
    }
}
