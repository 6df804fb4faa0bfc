//! What a machine says of its plan.

use capstan_plan::{Phase, PlanId, Report, Revision};

use super::Progress;
use crate::plans::RESTART_GATE;

/// The progress of a plan, from the report of the machine. Statements about other plans are ignored.
pub fn progress(plan: PlanId, report: Option<&Report>) -> Progress {
    let Some(report) = report else { return Progress::InFlight };
    if report.applied() == Some(plan) {
        return Progress::Applied;
    }
    match report.about(plan) {
        Some(reported) if matches!(reported.phase, Phase::Failed | Phase::Refused) => {
            let step = reported.step.as_ref().map(|step| format!("step {}: ", step.name)).unwrap_or_default();
            let why = reported.message.as_deref().unwrap_or("the machine does not say why");
            Progress::Failed(format!("{step}{why}{}", last_lines(reported)))
        }
        Some(reported) if reported.phase == Phase::Waiting => {
            let at_gate = reported.step.as_ref().is_some_and(|step| step.name.as_str() == RESTART_GATE);
            if at_gate { Progress::AtGate } else { Progress::InFlight }
        }
        _ => Progress::InFlight,
    }
}

/// How many of the last lines a machine printed are told.
const LINES: usize = 5;
/// How much of a line is told.
const CHARACTERS: usize = 200;

/// What the machine printed last, as it is told beside the reason.
fn last_lines(progress: &capstan_plan::Progress) -> String {
    let excerpt = progress.output.stderr.as_ref().or(progress.output.stdout.as_ref());
    let text =
        excerpt.and_then(|excerpt| excerpt.tail.as_deref().or(excerpt.head.as_deref())).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(LINES));
    last.map(|line| format!("\n  | {}", line.chars().take(CHARACTERS).collect::<String>())).collect()
}

/// The highest revision in a report.
pub fn reported_revision(report: &Report) -> Option<Revision> {
    let standing = match &report.standing {
        capstan_plan::Standing::Plan(progress) => Some(progress.plan.revision()),
        _ => None,
    };
    standing.max(report.applied().map(|plan| plan.revision()))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::plan_id;
    use super::*;
    use serde_json::json;

    fn reported(status: &serde_json::Value) -> Option<Report> {
        serde_json::from_value(status.clone()).ok()
    }

    #[test]
    fn only_words_about_this_plan_count() {
        let (plan, other) = (plan_id(2), plan_id(1));
        let name = |id: &PlanId| json!({"digest": id.digest().to_string(), "revision": id.revision().get()});
        for (status, expected) in [
            (json!({}), Progress::InFlight),
            (json!({"plan": name(&plan), "phase": "Applying"}), Progress::InFlight),
            (json!({"plan": name(&plan), "phase": "Applied", "applied": name(&plan)}), Progress::Applied),
            (json!({"plan": name(&other), "phase": "Applied", "applied": name(&other)}), Progress::InFlight),
            (json!({"plan": name(&other), "phase": "Failed"}), Progress::InFlight),
            (
                json!({"plan": name(&plan), "phase": "Failed", "message": "no disk",
                    "step": {"name": "install", "index": 1, "total": 2}}),
                Progress::Failed("step install: no disk".to_owned()),
            ),
            (
                json!({"plan": name(&plan), "phase": "Failed", "message": "it exited with 1",
                    "step": {"name": "ready", "index": 1, "total": 2},
                    "output": {"stderr": {"head": "first\n\nsecond\n"}}}),
                Progress::Failed("step ready: it exited with 1\n  | first\n  | second".to_owned()),
            ),
            (
                json!({"plan": name(&plan), "phase": "Waiting",
                    "step": {"name": "drained", "index": 1, "total": 2}}),
                Progress::AtGate,
            ),
            (
                json!({"plan": name(&plan), "phase": "Waiting",
                    "step": {"name": "other", "index": 1, "total": 2}}),
                Progress::InFlight,
            ),
        ] {
            assert_eq!(progress(plan, reported(&status).as_ref()), expected, "{status}");
        }
        // The right revision of other bytes.
        let forged = json!({"digest": other.digest().to_string(), "revision": 2});
        let status = json!({"plan": forged, "phase": "Applied", "applied": forged});
        assert_eq!(progress(plan, reported(&status).as_ref()), Progress::InFlight);
    }
}
