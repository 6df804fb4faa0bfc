//! How often agents renew their Leases, by the size of the fleet, so that renewals do not become the main load of the
//! management plane: about 25 a second up to 3,000 machines. Pure.

use capstan_plan::heartbeat;
use std::time::Duration;

/// Intervals, and the number of machines above which each is used. The shortest first.
const LEVELS: [(usize, Duration); 3] =
    [(0, heartbeat::DEFAULT), (500, Duration::from_secs(60)), (1_500, Duration::from_secs(120))];

/// The interval for a fleet of this many machines, if a machine has the interval `current` now. An interval becomes shorter only
/// when the fleet has shrunk by a fifth, so that a machine more or less does not change it for all.
pub(crate) fn interval(machines: usize, current: Option<Duration>) -> Duration {
    let current = current.unwrap_or(heartbeat::DEFAULT);
    let is_used = |&&(above, interval): &&(usize, Duration)| {
        let above = if interval <= current { above / 5 * 4 } else { above };
        above == 0 || machines > above
    };
    LEVELS.iter().rev().find(is_used).map_or(heartbeat::DEFAULT, |(_, interval)| *interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_fleets_renew_less_often() {
        for (machines, current, expected) in [
            (1, None, 20),
            (500, None, 20),
            (501, None, 60),
            (1_500, None, 60),
            (1_501, None, 120),
            (100_000, None, 120),
            // It was longer before.
            (450, Some(60), 60),
            (401, Some(60), 60),
            (400, Some(60), 20),
            (1_201, Some(120), 120),
            (1_200, Some(120), 60),
            (3, Some(120), 20),
            (1_600, Some(60), 120),
            // An interval that is none of the levels.
            (3, Some(33), 20),
        ] {
            let current = current.map(Duration::from_secs);
            let found = interval(machines, current);
            assert_eq!(found, Duration::from_secs(expected), "{machines} machines, {current:?}");
            assert_eq!(interval(machines, Some(found)), found, "it stays");
        }
    }
}
