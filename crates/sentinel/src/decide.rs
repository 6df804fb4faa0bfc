//! Whether a plan is applied now. Pure: data and time in, decision out.

use capstan_plan::Digest;
use jiff::{SignedDuration, Timestamp};

use crate::secret::{Data, keys, states};
use crate::time;

/// Pause after a failed run of a plan without a state.
pub const COOLDOWN: SignedDuration = SignedDuration::from_secs(30);

/// What to do about a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run it.
    Apply {
        /// The number that its commands get as `CATTLE_AGENT_ATTEMPT_NUMBER`.
        attempt: u64,
        /// Whether its state has to be `in-progress` first.
        begins: bool,
    },
    /// Do not run it. Periodic instructions and probes continue.
    Rest {
        /// When to decide again, if nothing changes before.
        until: Option<Timestamp>,
    },
}

impl Decision {
    const REST: Self = Self::Rest { until: None };
}

/// What to do about the plan with this checksum. `is_first`: this process sees this Secret for the first time.
pub fn decide(data: &Data, checksum: &Digest, is_first: bool, now: Timestamp) -> Decision {
    match data.state() {
        "" => by_checksum(data, &checksum.to_string(), is_first, now),
        states::PENDING => Decision::Apply { attempt: 1, begins: true },
        // An earlier process has begun it, and has not reported its end.
        states::IN_PROGRESS => {
            Decision::Apply { attempt: attempt(data, &checksum.to_string()), begins: false }
        }
        // Succeeded, failed, canceled, paused, or unknown: the orchestrator writes `pending` for another run.
        _ => Decision::REST,
    }
}

fn by_checksum(data: &Data, checksum: &str, is_first: bool, now: Timestamp) -> Decision {
    let apply = Decision::Apply { attempt: attempt(data, checksum), begins: false };
    let failures = failures(data, checksum);
    if failures > 0 {
        if data.max_failures().is_some_and(|most| failures >= most) {
            return Decision::REST;
        }
        return match cooled_down(data.text(keys::LAST_APPLY_TIME), COOLDOWN, now) {
            Some(until) => Decision::Rest { until: Some(until) },
            None => apply,
        };
    }
    let is_applied = data.text(keys::APPLIED_CHECKSUM) == checksum;
    if is_applied && !is_first { Decision::REST } else { apply }
}

/// The consecutive failures of exactly this plan.
pub(crate) fn failures(data: &Data, checksum: &str) -> u64 {
    if data.text(keys::FAILED_CHECKSUM) == checksum { data.count(keys::FAILURE_COUNT) } else { 0 }
}

fn attempt(data: &Data, checksum: &str) -> u64 {
    failures(data, checksum).saturating_add(1)
}

/// The end of a pause after a failure at this time, if it is not over. A time in the future was written before the clock
/// was set back.
pub(crate) fn cooled_down(last: &str, pause: SignedDuration, now: Timestamp) -> Option<Timestamp> {
    let last = time::parse(last)?;
    let until = last.checked_add(pause).ok()?;
    (last <= now && now < until).then_some(until)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &[u8] = b"{}";

    fn now() -> Timestamp {
        "2026-11-19T12:00:00Z".parse().expect("a time")
    }

    fn ago(seconds: i64) -> String {
        time::format(now().checked_sub(SignedDuration::from_secs(seconds)).expect("a time"))
    }

    fn data(pairs: &[(&str, &str)]) -> Data {
        let mut data = Data::default();
        data.set(keys::PLAN, PLAN);
        pairs.iter().for_each(|(key, value)| data.set(key, *value));
        data
    }

    fn decided(pairs: &[(&str, &str)], is_first: bool) -> Decision {
        decide(&data(pairs), &Digest::of(PLAN), is_first, now())
    }

    const fn apply(attempt: u64) -> Decision {
        Decision::Apply { attempt, begins: false }
    }

    #[test]
    fn without_a_state_checksums_decide() {
        let sum = Digest::of(PLAN).to_string();
        let (this, recent, old) = (sum.as_str(), ago(10), ago(30));
        let until = now().checked_add(SignedDuration::from_secs(20)).ok();
        let failed = |count, time| {
            vec![(keys::FAILED_CHECKSUM, this), (keys::FAILURE_COUNT, count), (keys::LAST_APPLY_TIME, time)]
        };
        let with = |mut pairs: Vec<(&'static str, &str)>, more: &[(&'static str, &'static str)]| {
            let more: Vec<(&str, String)> =
                more.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
            let mut owned: Vec<(&str, String)> =
                pairs.drain(..).map(|(key, value)| (key, value.to_owned())).collect();
            owned.extend(more);
            owned
        };
        type Row = (&'static str, Vec<(&'static str, String)>, bool, Decision);
        let table: Vec<Row> = vec![
            ("new", vec![], false, apply(1)),
            ("applied", with(vec![(keys::APPLIED_CHECKSUM, this)], &[]), false, Decision::REST),
            (
                "applied, and this process has begun",
                with(vec![(keys::APPLIED_CHECKSUM, this)], &[]),
                true,
                apply(1),
            ),
            ("another one is applied", with(vec![(keys::APPLIED_CHECKSUM, "other")], &[]), false, apply(1)),
            ("its report was blanked", with(vec![(keys::APPLIED_CHECKSUM, "")], &[]), false, apply(1)),
            ("failed just now", with(failed("2", &recent), &[]), false, Decision::Rest { until }),
            ("failed just now, first", with(failed("2", &recent), &[]), true, Decision::Rest { until }),
            ("failed a while ago", with(failed("2", &old), &[]), false, apply(3)),
            ("failed in the future", with(failed("2", &ago(-60)), &[]), false, apply(3)),
            ("failed at an unknown time", with(failed("2", "x"), &[]), false, apply(3)),
            (
                "failed too often",
                with(failed("2", &old), &[(keys::MAX_FAILURES, "2")]),
                false,
                Decision::REST,
            ),
            (
                "failed too often, first",
                with(failed("2", &old), &[(keys::MAX_FAILURES, "2")]),
                true,
                Decision::REST,
            ),
            ("not yet too often", with(failed("2", &old), &[(keys::MAX_FAILURES, "3")]), false, apply(3)),
            ("no limit", with(failed("99", &old), &[(keys::MAX_FAILURES, "-1")]), false, apply(100)),
            (
                "limit that is not a number",
                with(failed("99", &old), &[(keys::MAX_FAILURES, "x")]),
                false,
                apply(100),
            ),
            (
                "another plan failed",
                with(failed("2", &recent), &[(keys::FAILED_CHECKSUM, "other"), (keys::MAX_FAILURES, "1")]),
                false,
                apply(1),
            ),
        ];
        for (what, pairs, is_first, expected) in table {
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
            assert_eq!(decided(&pairs, is_first), expected, "{what}");
        }
    }

    #[test]
    fn with_a_state_nothing_else_decides() {
        let sum = Digest::of(PLAN).to_string();
        let failed = [
            (keys::FAILED_CHECKSUM, sum.as_str()),
            (keys::FAILURE_COUNT, "4"),
            (keys::LAST_APPLY_TIME, &ago(1)),
            (keys::MAX_FAILURES, "1"),
        ];
        let table = [
            ("pending", Decision::Apply { attempt: 1, begins: true }),
            ("in-progress", apply(5)),
            ("succeeded", Decision::REST),
            ("failed", Decision::REST),
            ("cancelled", Decision::REST),
            ("canceled", Decision::REST),
            ("paused", Decision::REST),
            ("surprise", Decision::REST),
        ];
        for (state, expected) in table {
            for is_first in [false, true] {
                let pairs = [&failed[..], &[(keys::STATE, state)]].concat();
                assert_eq!(decided(&pairs, is_first), expected, "{state}");
            }
        }
    }
}
