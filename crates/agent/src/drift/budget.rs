//! Limits how often a unit is started or restarted because of drift. Pure.
//!
//! A unit that is down is started again with growing pauses, without a limit. A running unit is restarted a few times
//! only: each restart interrupts its work, and a program that changes its files again and again must not restart it
//! forever.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The pause after the first repair. It doubles with each further one.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// The longest pause.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);
/// A unit that needed no repair for this time has its full budget again.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(6);

/// Consecutive restarts of a running unit.
pub const MOST_RESTARTS: u32 = 3;

/// The last repair of a unit, and the number of consecutive ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    /// The number of this repair in a row, from 1.
    pub number: u32,
    /// The time of the repair.
    pub at: Timestamp,
}

/// Whether a unit may be repaired now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// Yes; the repair has this number.
    Now(u32),
    /// Not before this time.
    Later(Timestamp),
    /// The budget is used up.
    Never,
}

/// Whether a unit may be started, or restarted if it runs.
pub fn may_repair(last: Option<Repair>, runs: bool, now: Timestamp) -> Allowance {
    let Some(last) = last else { return Allowance::Now(1) };
    let since = now.duration_since(last.at);
    if since >= FORGOTTEN {
        return Allowance::Now(1);
    }
    if runs && last.number >= MOST_RESTARTS {
        return Allowance::Never;
    }
    let doubled =
        FIRST_PAUSE.checked_mul(1 << last.number.saturating_sub(1).min(10)).unwrap_or(LONGEST_PAUSE);
    let due = last.at.checked_add(doubled.min(LONGEST_PAUSE)).unwrap_or(now);
    // A clock that was set back must not make anybody wait for years.
    if now < due && !since.is_negative() {
        return Allowance::Later(due);
    }
    Allowance::Now(last.number.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_repaired_less_and_less_often() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).expect("a time");
        let last = |number| Some(Repair { number, at: at(100) });
        for (case, last, runs, now, expected) in [
            ("the first", None, false, 100, Allowance::Now(1)),
            ("at once again", last(1), false, 100, Allowance::Later(at(101))),
            ("after the pause", last(1), false, 101, Allowance::Now(2)),
            ("the pause has doubled", last(3), false, 103, Allowance::Later(at(104))),
            ("the longest pause", last(60), false, 159, Allowance::Later(at(160))),
            ("for as long as it is down", last(60), false, 160, Allowance::Now(61)),
            ("a running one", last(2), true, 102, Allowance::Now(3)),
            ("a running one, too often", last(3), true, 300, Allowance::Never),
            ("long ago", last(3), true, 460, Allowance::Now(1)),
            ("a clock that was set back", last(3), false, 1, Allowance::Now(4)),
        ] {
            assert_eq!(may_repair(last, runs, at(now)), expected, "{case}");
        }
    }
}
