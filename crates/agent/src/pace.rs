//! When a report is written. The end of a plan, or a wait for another controller, is reported at once, because others
//! act on it. Progress is informative only, and may be delayed, so that a plan of many small steps does not cause as
//! many requests.

use capstan_plan::{Phase, Report, Standing};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Shortest interval between two reports of progress.
const UNDER_WAY: Duration = Duration::from_secs(2);
/// A plan that ends within this time is reported once, when it has ended.
const BEGUN: Duration = Duration::from_secs(1);
/// Delay of the first report, so that it contains the facts and probes of the machine.
const INTRODUCTION: Duration = Duration::from_secs(1);
/// Delay of the first report of an agent without a plan, because the plan often arrives in this time. The facts of the
/// machine are in its credential request.
const FIRST_PLAN: Duration = Duration::from_secs(5);
/// The report that a plan was applied is delayed for this time, so that the first results of its probes are in the same write.
const FIRST_PROBES: Duration = Duration::from_millis(500);
/// Delay before an agent that has applied a plan reports that it has none: after a restart it has not read its plan
/// yet, and the control plane provider would take the machine for one without a plan.
const REMEMBRANCE: Duration = Duration::from_secs(30);

/// Waits until the latest of the `reports` should be written; the previous one was written at `written`.
pub async fn until_due(reports: &mut watch::Receiver<Report>, written: Option<Instant>) {
    let (mut phase, mut began) = (None, Instant::now());
    loop {
        let now = phase_of(&reports.borrow());
        if phase.replace(now) != Some(now) {
            began = Instant::now();
        }
        let Some(due) = waits_until(&reports.borrow(), written, began) else { return };
        tokio::select! {
            () = sleep_until(due) => return,
            changed = reports.changed() => if changed.is_err() { return },
        }
    }
}

fn phase_of(report: &Report) -> Option<Phase> {
    match &report.standing {
        Standing::Plan(progress) => Some(progress.phase),
        _ => None,
    }
}

/// Until when the report of a plan is delayed that is in its phase since `began`, if it is.
fn waits_until(report: &Report, written: Option<Instant>, began: Instant) -> Option<Instant> {
    match &report.standing {
        Standing::Idle if written.is_none() && report.applied.is_some() => Some(began + REMEMBRANCE),
        Standing::Idle if written.is_none() => Some(began + FIRST_PLAN),
        Standing::Plan(progress) if progress.phase == Phase::Applied && report.probes.is_empty() => {
            // Without an earlier report, the agent has restarted after the plan was applied: only its probes have not run.
            Some(began + if written.is_none() { INTRODUCTION } else { FIRST_PROBES })
        }
        Standing::Plan(progress) if progress.phase == Phase::Applying => {
            let begun = began + BEGUN;
            Some(written.map_or(begun, |written| begun.max(written + UNDER_WAY)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::{PlanId, Progress};

    fn at(phase: Phase) -> Report {
        let plan = serde_json::json!({"digest": "0".repeat(64), "revision": 1});
        let plan: PlanId = serde_json::from_value(plan).expect("a plan's name");
        Report { standing: Standing::Plan(Progress::new(plan, phase)), ..crate::report::hello() }
    }

    #[test]
    fn only_what_nobody_waits_for_is_held_back() {
        let written = Instant::now();
        for phase in [Phase::Waiting, Phase::Failed, Phase::Refused] {
            assert_eq!(waits_until(&at(phase), Some(written), written), None, "{phase:?}");
        }
        let probe = serde_json::json!({"name": "kubelet", "healthy": true});
        let probed = vec![serde_json::from_value(probe).expect("the result of a probe")];
        let applied = Report { probes: probed, ..at(Phase::Applied) };
        assert_eq!(waits_until(&applied, Some(written), written), None, "it has probed");
        assert_eq!(
            waits_until(&at(Phase::Applied), Some(written), written),
            Some(written + FIRST_PROBES),
            "its probes are about to run"
        );
        assert_eq!(waits_until(&crate::report::hello(), Some(written), written), None);
        assert_eq!(waits_until(&at(Phase::Applying), Some(written), written), Some(written + UNDER_WAY));
        assert_eq!(waits_until(&at(Phase::Applying), None, written), Some(written + BEGUN), "the first word");
        let later = written + UNDER_WAY;
        assert_eq!(
            waits_until(&at(Phase::Applying), Some(written), later),
            Some(later + BEGUN),
            "a new plan"
        );
        let began = written;
        assert_eq!(waits_until(&crate::report::hello(), None, began), Some(began + FIRST_PLAN));
        let applied = at(Phase::Applied).applied();
        assert!(applied.is_some());
        let restarted = Report { applied, ..crate::report::hello() };
        assert_eq!(waits_until(&restarted, None, began), Some(began + REMEMBRANCE));
        assert_eq!(
            waits_until(&at(Phase::Applied), None, began),
            Some(began + INTRODUCTION),
            "no probe has run"
        );
        assert_eq!(waits_until(&restarted, Some(written), began), None, "its plan was taken away");
    }

    #[tokio::test]
    async fn the_end_of_a_plan_does_not_wait_behind_its_steps() {
        let (sender, mut reports) = watch::channel(at(Phase::Applying));
        // So far ahead that only the end of the plan can end the wait.
        let far = Instant::now() + Duration::from_secs(3600);
        let waits = tokio::spawn(async move { until_due(&mut reports, Some(far)).await });
        sender.send_replace(at(Phase::Applied));
        waits.await.expect("an end");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_plan_waits_for_its_probes() {
        let (sender, mut reports) = watch::channel(at(Phase::Applying));
        let began = Instant::now();
        let written = began.checked_sub(Duration::from_secs(60));
        let waits = async {
            until_due(&mut reports, written).await;
            began.elapsed()
        };
        let plan = async {
            sleep_until(began + BEGUN / 2).await;
            sender.send_replace(at(Phase::Applied));
        };
        assert_eq!(tokio::join!(waits, plan).0, BEGUN / 2 + FIRST_PROBES);
    }
}
