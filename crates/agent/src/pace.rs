//! When a report is written. That a plan has ended, or waits for somebody, is told at once: others wait for it. How far it
//! has got is for people who look on, and a plan of many small steps would be told in as many requests: that may wait.

use capstan_plan::{Phase, Report, Standing};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How far a plan has got is told no more often than this.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// Waits until the newest of what is `told` should be written; the last one was written at this time.
pub async fn until_due(told: &mut watch::Receiver<Report>, written: Option<Instant>) {
    let Some(due) = written.map(|written| written + UNDER_WAY) else { return };
    while may_wait(&told.borrow()) && Instant::now() < due {
        tokio::select! {
            () = sleep_until(due) => return,
            changed = told.changed() => if changed.is_err() { return },
        }
    }
}

fn may_wait(report: &Report) -> bool {
    matches!(&report.standing, Standing::Plan(progress) if progress.phase == Phase::Applying)
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

    /// How long a report in this phase waits that comes this long after another one.
    async fn waits(phase: Phase, after: Duration) -> Duration {
        let (_sender, mut told) = watch::channel(at(phase));
        let written = Instant::now();
        tokio::time::advance(after).await;
        let from = Instant::now();
        until_due(&mut told, Some(written)).await;
        from.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_nobody_waits_for_is_held_back() {
        let soon = Duration::from_millis(500);
        for phase in [Phase::Waiting, Phase::Applied, Phase::Failed, Phase::Refused] {
            assert_eq!(waits(phase, soon).await, Duration::ZERO, "{phase:?}");
        }
        assert_eq!(waits(Phase::Applying, soon).await, UNDER_WAY - soon);
        assert_eq!(waits(Phase::Applying, UNDER_WAY).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_plan_does_not_wait_behind_its_steps() {
        let (sender, mut told) = watch::channel(at(Phase::Applying));
        let from = Instant::now();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            sender.send_replace(at(Phase::Applied));
            std::future::pending::<()>().await;
        });
        until_due(&mut told, Some(from)).await;
        assert_eq!(from.elapsed(), Duration::from_millis(300));
    }
}
