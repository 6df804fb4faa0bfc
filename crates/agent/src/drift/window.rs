//! Whether a maintenance window is open, as far as the clock of the machine can be trusted. Pure.
//!
//! A repair in a window that is not open interrupts users when they were told that nothing happens. So a clock that may be
//! wrong opens no window: a machine without a battery starts with any time, and a clock may be set at any moment.

use capstan_plan::limits::LIFE_HOURS;
use capstan_plan::windows::{Together, Windows, together};
use capstan_plan::{MachinePlan, VerifiedPlan};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// How long the clock must have run evenly before it opens a window: since the agent was started, and since it was set.
const SETTLING: Duration = Duration::from_mins(10);

/// Two readings that differ more from the time that has passed are those of a clock that was set.
const SLACK: SignedDuration = SignedDuration::from_secs(30);

/// The wall clock, as it was read so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WallClock {
    last: Option<Reading>,
    /// Since when it has run evenly.
    even_since: Duration,
}

/// The wall clock and the monotonic clock at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    now: Timestamp,
    elapsed: Duration,
}

impl WallClock {
    /// Reads the clock. To be called at each check, because only two readings show that it was set.
    pub(crate) fn read(&mut self, now: Timestamp, elapsed: Duration) {
        if !self.last.is_some_and(|last| last.leads_to(now, elapsed)) {
            self.even_since = elapsed;
        }
        self.last = Some(Reading { now, elapsed });
    }

    fn is_settled(&self) -> bool {
        self.last.is_some_and(|last| last.elapsed.saturating_sub(self.even_since) >= SETTLING)
    }
}

impl Reading {
    /// Whether the wall clock has advanced as much as time has passed.
    fn leads_to(self, now: Timestamp, elapsed: Duration) -> bool {
        let passed =
            elapsed.checked_sub(self.elapsed).and_then(|passed| SignedDuration::try_from(passed).ok());
        passed
            .and_then(|passed| now.duration_since(self.now).checked_sub(passed))
            .is_some_and(|difference| difference.abs() <= SLACK)
    }
}

/// Whether one of the windows of the plan is open now. Otherwise what the repair waits for, for users.
pub(crate) fn is_open(plan: &VerifiedPlan, clock: &WallClock) -> Result<(), String> {
    let plan = plan.plan();
    let parse = |texts: &[String]| Windows::parse(texts.iter().map(String::as_str));
    let (Ok(Some(windows)), Ok(of_host)) = (parse(&plan.repair_windows), parse(&plan.host_windows)) else {
        return Err(
            "it is only reported, because the maintenance windows of the plan cannot be read".to_owned()
        );
    };
    let Some(reading) = clock.last.filter(|reading| !is_before(reading.now, plan)) else {
        return Err(
            "its repair waits until the clock of the machine is right: it is before the plan was made"
                .to_owned(),
        );
    };
    if !clock.is_settled() {
        return Err(
            "its repair waits until the clock of the machine has run evenly for ten minutes".to_owned()
        );
    }
    let sets: Vec<&Windows> = [&windows].into_iter().chain(&of_host).collect();
    match together(&sets, reading.now) {
        Together::Open => Ok(()),
        Together::Closed { opens: Some(opens) } => {
            Err(format!("its repair waits for the maintenance window that opens at {opens}"))
        }
        Together::Closed { opens: None } => Err(
            "it is only reported, because the windows of the cluster and of the Host are not open at the same time in the next \
             two weeks"
                .to_owned(),
        ),
    }
}

/// Whether a time is before the plan was made.
fn is_before(now: Timestamp, plan: &MachinePlan) -> bool {
    let made = plan.expires.checked_sub(SignedDuration::from_hours(LIFE_HOURS));
    made.is_ok_and(|made| now < made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::{Action, Epoch, Gate, MachineIdentity, Revision, SigningKey, Step, TrustedKeys};

    const MINUTE: Duration = Duration::from_mins(1);

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    /// A plan that was made on 2026-03-01.
    fn plan(windows: &[&str]) -> VerifiedPlan {
        plan_on_host(windows, &[])
    }

    fn plan_on_host(windows: &[&str], host_windows: &[&str]) -> VerifiedPlan {
        let machine = MachineIdentity {
            name: "web-0".parse().expect("a name"),
            machine_id: "id".parse().expect("an ID"),
        };
        let mut plan =
            MachinePlan::new(machine.clone(), Revision::FIRST, Epoch(1), at("2026-03-31T00:00:00Z"));
        plan.steps = vec![Step::new("gate".parse().expect("a name"), Action::Gate(Gate {}))];
        let texts = |windows: &[&str]| windows.iter().map(|window| (*window).to_owned()).collect();
        plan.repair_windows = texts(windows);
        plan.host_windows = texts(host_windows);
        let key = SigningKey::from_seed(&[1; 32]);
        let keys: TrustedKeys = [key.public()].into_iter().collect();
        plan.seal().expect("a plan").sign(&key).verify(&keys, &machine).expect("a plan")
    }

    /// A clock that has run evenly for an hour.
    fn settled(now: Timestamp) -> WallClock {
        let mut clock = WallClock::default();
        for minute in 0..=60 {
            let before = SignedDuration::from_mins(60 - minute);
            clock.read(
                now.checked_sub(before).expect("a time"),
                MINUTE * u32::try_from(minute).expect("a number"),
            );
        }
        clock
    }

    #[test]
    fn a_window_is_open_in_the_time_of_its_zone() {
        // In Berlin, clocks are set forward on 2026-03-29 from 02:00 to 03:00, and back on 2026-10-25 from 03:00 to 02:00.
        let night = &["daily 02:30-04:00 Europe/Berlin"][..];
        for (windows, now, opens) in [
            (night, "2026-03-28T01:29:59Z", Some("2026-03-28T01:30:00Z")),
            (night, "2026-03-28T01:30:00Z", None),
            (night, "2026-03-28T02:59:59Z", None),
            (night, "2026-03-28T03:00:00Z", Some("2026-03-29T01:30:00Z")),
            // 02:30 does not exist on this day: it is 03:30.
            (night, "2026-03-29T00:30:00Z", Some("2026-03-29T01:30:00Z")),
            (night, "2026-03-29T01:30:00Z", None),
            (night, "2026-03-30T00:29:59Z", Some("2026-03-30T00:30:00Z")),
            (night, "2026-03-30T00:30:00Z", None),
            (night, "2026-10-26T01:29:59Z", Some("2026-10-26T01:30:00Z")),
            (&["Sun 22:00-04:00"], "2026-03-09T03:59:59Z", None),
            (&["Sun 22:00-04:00"], "2026-03-09T04:00:00Z", Some("2026-03-15T22:00:00Z")),
            (&["Sun 22:00-04:00", "Mon 03:00-06:00"], "2026-03-09T05:00:00Z", None),
        ] {
            let expected = match opens {
                None => Ok(()),
                Some(opens) => {
                    Err(format!("its repair waits for the maintenance window that opens at {opens}"))
                }
            };
            assert_eq!(is_open(&plan(windows), &settled(at(now))), expected, "{windows:?} {now}");
        }
    }

    #[test]
    fn the_windows_of_the_host_must_be_open_too() {
        // 2026-03-28 is a Saturday.
        let (night, weekend) = (&["daily 01:00-05:00"][..], &["Sat,Sun 03:00-09:00"][..]);
        let waits =
            |opens: &str| Err(format!("its repair waits for the maintenance window that opens at {opens}"));
        for (now, expected) in [
            ("2026-03-28T02:00:00Z", waits("2026-03-28T03:00:00Z")),
            ("2026-03-28T04:00:00Z", Ok(())),
            ("2026-03-28T06:00:00Z", waits("2026-03-29T03:00:00Z")),
        ] {
            assert_eq!(is_open(&plan_on_host(night, weekend), &settled(at(now))), expected, "{now}");
        }
        let now = settled(at("2026-03-28T04:00:00Z"));
        let apart = is_open(&plan_on_host(night, &["daily 05:00-06:00"]), &now).expect_err("closed");
        assert!(apart.contains("are not open at the same time"), "{apart}");
        for (cluster, host) in [(night, &["sometimes"][..]), (&[], night)] {
            let why = is_open(&plan_on_host(cluster, host), &now).expect_err("closed");
            assert!(why.contains("cannot be read"), "{why}");
        }
    }

    #[test]
    fn windows_that_cannot_be_read_are_never_open() {
        for windows in [&[][..], &["sometimes"], &["daily 00:00-00:00", "daily 00:00-00:00 Middle/Earth"]] {
            let why = is_open(&plan(windows), &settled(at("2026-03-28T01:30:00Z"))).expect_err("closed");
            assert!(why.contains("cannot be read"), "{why}");
        }
    }

    #[test]
    fn a_clock_that_may_be_wrong_opens_no_window() {
        let always = plan(&["daily 00:00-00:00"]);
        let open = |clock: &WallClock| is_open(&always, clock).is_ok();
        let noon = at("2026-03-10T12:00:00Z");
        assert!(open(&settled(noon)));
        assert!(!open(&settled(at("1970-01-02T00:00:00Z"))), "it was never set");
        assert!(!open(&settled(at("2026-02-28T23:59:59Z"))), "the plan is of the future");
        assert!(!open(&WallClock::default()), "it was not read");

        for (case, set_to) in [
            ("set forward", at("2026-03-10T13:00:00Z")),
            ("set back", at("2026-03-10T11:00:00Z")),
            ("by a minute", at("2026-03-10T12:02:00Z")),
        ] {
            let mut clock = settled(noon);
            let mut elapsed = MINUTE * 61;
            let mut now = set_to;
            clock.read(now, elapsed);
            assert!(!open(&clock), "{case}");
            for minute in 1..=10 {
                elapsed += MINUTE;
                now = now.checked_add(SignedDuration::from_mins(1)).expect("a time");
                clock.read(now, elapsed);
                assert_eq!(open(&clock), minute == 10, "{case}: after {minute} minutes");
            }
        }
        // A clock that is corrected little by little was not set.
        let mut clock = settled(noon);
        clock.read(at("2026-03-10T12:01:20Z"), MINUTE * 61);
        assert!(open(&clock));
    }
}
