//! When a periodic instruction is due, and its recorded result.

use jiff::{SignedDuration, Timestamp};

use crate::output::{Bytes, Periodic, Periodics};
use crate::plan::{PeriodicInstruction, Plan};
use crate::time;

/// Default period, in seconds.
const PERIOD: i64 = 600;

/// Pause after a failure, times the number of failures, in seconds.
const PAUSE: i64 = 30;

/// Number of failures after which the pause does not grow.
const LONGEST_PAUSE: u32 = 6;

/// When it runs next, by its recorded result; `None` is now.
pub fn next(
    instruction: &PeriodicInstruction,
    previous: Option<&Periodic>,
    now: Timestamp,
) -> Option<Timestamp> {
    let previous = previous?;
    let after = |text: &str, seconds: i64| {
        let last = time::parse(text)?;
        // A time in the future was written before the clock was set back.
        let next = last.checked_add(SignedDuration::from_secs(seconds)).ok()?;
        (last <= now && now < next).then_some(next)
    };
    let period = if instruction.period_seconds > 0 { instruction.period_seconds } else { PERIOD };
    let pause = PAUSE * i64::from(previous.failures.clamp(1, LONGEST_PAUSE));
    let period = after(&previous.last_successful_run_time, period);
    let pause = after(&previous.last_failed_run_time, pause);
    period.max(pause)
}

/// Whether any periodic instruction of a plan is due.
pub fn is_any_due(plan: &Plan, before: &Periodics, now: Timestamp) -> bool {
    let named = plan.periodic_instructions.iter().filter(|instruction| !instruction.common.name.is_empty());
    named
        .into_iter()
        .any(|instruction| next(instruction, before.get(&instruction.common.name), now).is_none())
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Exit code.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Its recorded result after a run that began now.
pub fn result(
    instruction: &PeriodicInstruction,
    previous: Option<&Periodic>,
    run: Run,
    now: Timestamp,
) -> Periodic {
    let failed = run.exit_code != 0;
    let previous = previous.cloned().unwrap_or_default();
    let at = time::format(now);
    Periodic {
        name: instruction.common.name.clone(),
        stdout: Bytes(run.stdout),
        stderr: Bytes(if instruction.save_stderr_output { run.stderr } else { Vec::new() }),
        exit_code: run.exit_code,
        last_successful_run_time: if failed { previous.last_successful_run_time } else { at.clone() },
        failures: if failed { previous.failures.saturating_add(1) } else { 0 },
        last_failed_run_time: if failed { at } else { String::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
    }

    fn due(period: i64, succeeded: Option<i64>, failed: Option<(i64, u32)>) -> bool {
        let instruction = PeriodicInstruction { period_seconds: period, ..PeriodicInstruction::default() };
        let text = |moment: Option<i64>| moment.map(|seconds| time::format(at(seconds))).unwrap_or_default();
        let previous = Periodic {
            last_successful_run_time: text(succeeded),
            last_failed_run_time: text(failed.map(|(moment, _)| moment)),
            failures: failed.map(|(_, failures)| failures).unwrap_or_default(),
            ..Periodic::default()
        };
        next(&instruction, Some(&previous), at(0)).is_none()
    }

    #[test]
    fn an_instruction_is_due_after_its_period_or_its_pause() {
        assert_eq!(next(&PeriodicInstruction::default(), None, at(0)), None, "it has never run");
        let table = [
            (0, Some(-599), None, false),
            (0, Some(-600), None, true),
            (5, Some(-4), None, false),
            (5, Some(-5), None, true),
            (5, Some(60), None, true),
            (5, Some(-60), Some((-29, 1)), false),
            (5, Some(-60), Some((-30, 1)), true),
            (5, None, Some((-59, 2)), false),
            (5, None, Some((-60, 2)), true),
            (5, None, Some((-179, 100)), false),
            (5, None, Some((-180, 100)), true),
            (5, None, Some((-29, 0)), false),
            (5, None, None, true),
        ];
        for (period, succeeded, failed, expected) in table {
            assert_eq!(due(period, succeeded, failed), expected, "{period} {succeeded:?} {failed:?}");
        }
    }

    #[test]
    fn failures_are_counted_until_a_success() {
        let instruction = PeriodicInstruction { save_stderr_output: true, ..PeriodicInstruction::default() };
        let run = |exit_code| Run { exit_code, stdout: b"out".to_vec(), stderr: b"err".to_vec() };
        let first = result(&instruction, None, run(0), at(0));
        assert_eq!((first.failures, first.last_failed_run_time.as_str()), (0, ""));
        let second = result(&instruction, Some(&first), run(-1), at(1));
        let third = result(&instruction, Some(&second), run(7), at(2));
        assert_eq!((third.failures, third.exit_code), (2, 7));
        assert_eq!(third.last_successful_run_time, first.last_successful_run_time);
        assert_eq!(third.last_failed_run_time, time::format(at(2)));
        assert_eq!((&third.stdout.0[..], &third.stderr.0[..]), (&b"out"[..], &b"err"[..]));
        let fourth = result(&PeriodicInstruction::default(), Some(&third), run(0), at(3));
        assert_eq!((fourth.failures, fourth.stderr.0.len()), (0, 0));
        assert_eq!(fourth.last_failed_run_time, "");
    }
}
