//! `spec.healing` of a control plane, as healing steps.

use capstan_api::controlplane::{HealingSpec, HealingStepType};
use capstan_planner::healing::{HealingStep, Ladder, Rung};
use jiff::SignedDuration;

/// The settings of the user, with defaults.
pub(crate) fn ladder(spec: Option<&HealingSpec>) -> Ladder {
    let Some(spec) = spec else { return Ladder::default() };
    let usual = Ladder::default();
    let seconds = |value: Option<i32>| value.map(|value| SignedDuration::from_secs(value.max(0).into()));
    let rungs = spec.steps.iter().map(|said| {
        let what = step(said.type_);
        Rung { what, timeout: seconds(said.timeout_seconds).unwrap_or_else(|| what.default_timeout()) }
    });
    Ladder {
        wait: seconds(spec.wait_seconds).unwrap_or(usual.wait),
        rungs: if spec.steps.is_empty() { usual.rungs } else { rungs.collect() },
        at_once: spec.max_in_flight.and_then(|most| usize::try_from(most).ok()).unwrap_or(usual.at_once),
        silent_after: seconds(spec.silent_after_seconds).unwrap_or(usual.silent_after),
        min_healthy: seconds(spec.min_healthy_period_seconds).unwrap_or(usual.min_healthy),
    }
}

const fn step(step: HealingStepType) -> HealingStep {
    match step {
        HealingStepType::RestartKubernetes => HealingStep::RestartKubernetes,
        HealingStepType::ReapplyPlan => HealingStep::ReapplyPlan,
        HealingStepType::Reboot => HealingStep::Reboot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_and_limits_are_the_users() {
        let said = |spec: serde_json::Value| ladder(Some(&serde_json::from_value(spec).expect("a spec")));
        let usual = ladder(None);
        assert_eq!(said(json!({})), usual);
        assert_eq!((usual.rungs.len(), usual.at_once, usual.wait), (3, 1, SignedDuration::ZERO));
        let own = said(json!({
            "waitSeconds": 60, "steps": [{"type": "Reboot", "timeoutSeconds": 30}], "maxInFlight": 0,
            "silentAfterSeconds": 5, "minHealthyPeriodSeconds": 7}));
        let rung = Rung { what: HealingStep::Reboot, timeout: SignedDuration::from_secs(30) };
        assert_eq!((&own.rungs, own.at_once, own.wait.as_secs()), (&vec![rung], 0, 60));
        assert_eq!((own.silent_after.as_secs(), own.min_healthy.as_secs()), (5, 7));
    }

    #[test]
    fn steps_are_those_of_the_api() {
        assert_eq!(HealingStepType::ALL.map(step), HealingStep::ALL);
    }
}
