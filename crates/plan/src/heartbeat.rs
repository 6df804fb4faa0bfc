//! How often an agent renews its Lease. The manager says it in an annotation of the Lease, which the agent reads in the response
//! to each renewal.

use std::time::Duration;

/// Annotation of an agent's Lease: the interval of renewals, in seconds.
pub const ANNOTATION: &str = "capstan.dev/heartbeat-seconds";
/// The interval of an agent that has not read another one.
pub const DEFAULT: Duration = Duration::from_secs(20);
/// Intervals that an agent accepts. A Lease of more than ten minutes would hide a machine that is gone.
const ACCEPTED: std::ops::RangeInclusive<u64> = 5..=200;
/// A Lease is valid for this many intervals, so that two renewals may be lost.
const VALID_INTERVALS: u32 = 3;

/// The interval that the text of the annotation means, within what agents accept; `None` if it is not a number.
pub fn read(text: &str) -> Option<Duration> {
    let seconds: u64 = text.parse().ok()?;
    Some(Duration::from_secs(seconds.clamp(*ACCEPTED.start(), *ACCEPTED.end())))
}

/// For how long a Lease is valid that is renewed in this interval.
pub fn validity(interval: Duration) -> Duration {
    interval * VALID_INTERVALS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_number_of_seconds_within_limits() {
        for (text, expected) in
            [("60", Some(60)), ("0", Some(5)), ("86400", Some(200)), ("", None), ("-1", None), ("1m", None)]
        {
            assert_eq!(read(text), expected.map(Duration::from_secs), "{text}");
        }
        assert_eq!(validity(DEFAULT), Duration::from_secs(60));
    }
}
