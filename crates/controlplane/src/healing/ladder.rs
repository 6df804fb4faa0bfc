//! The steps of healing, as `spec.healing` says them. Pure.

use capstan_api::controlplane::{HealingSpec, HealingStepType};
use jiff::SignedDuration;
use std::fmt;

/// Default of `silentAfterSeconds`: the agent counts as silent after this time without a Lease renewal.
const SILENT_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Default of `minHealthyPeriodSeconds`: after this time the next illness begins with the first step again.
const MIN_HEALTHY: SignedDuration = SignedDuration::from_hours(1);

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    pub(crate) what: HealingStepType,
    /// How long the machine has to become healthy.
    pub(crate) timeout: SignedDuration,
}

/// All steps and their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ladder {
    /// How long an ill machine is left alone first.
    pub(crate) wait: SignedDuration,
    pub(crate) rungs: Vec<Rung>,
    /// How many machines of a cluster are healed at a time.
    pub(crate) at_once: usize,
    pub(crate) silent_after: SignedDuration,
    pub(crate) min_healthy: SignedDuration,
}

impl Ladder {
    /// What the user says, with defaults for the rest.
    pub(crate) fn of(spec: Option<&HealingSpec>) -> Self {
        let spec = spec.cloned().unwrap_or_default();
        let seconds = |value: Option<i32>| value.map(|value| SignedDuration::from_secs(value.max(0).into()));
        let steps = match spec.steps.is_empty() {
            true => HealingStepType::ALL.map(|what| (what, None)).to_vec(),
            false => spec.steps.iter().map(|step| (step.type_, step.timeout_seconds)).collect(),
        };
        let rung = |(what, timeout)| Rung {
            what,
            timeout: seconds(timeout).unwrap_or_else(|| default_timeout(what)),
        };
        Self {
            wait: seconds(spec.wait_seconds).unwrap_or_default(),
            rungs: steps.into_iter().map(rung).collect(),
            at_once: spec.max_in_flight.and_then(|most| usize::try_from(most).ok()).unwrap_or(1),
            silent_after: seconds(spec.silent_after_seconds).unwrap_or(SILENT_AFTER),
            min_healthy: seconds(spec.min_healthy_period_seconds).unwrap_or(MIN_HEALTHY),
        }
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at_once == 0 {
            return f.write_str("no machine is healed in place (spec.healing.maxInFlight is 0)");
        }
        let rungs: Vec<String> = self
            .rungs
            .iter()
            .map(|rung| format!("{} ({} s)", words(rung.what), rung.timeout.as_secs()))
            .collect();
        let waits = match self.wait.as_secs() {
            0 => String::new(),
            seconds => format!("wait {seconds} s, "),
        };
        write!(f, "{waits}{}, {} machine(s) at a time", rungs.join(", "), self.at_once)
    }
}

/// What a step does, for people.
pub(super) const fn words(step: HealingStepType) -> &'static str {
    match step {
        HealingStepType::RestartKubernetes => "restart Kubernetes",
        HealingStepType::ReapplyPlan => "carry out the whole plan again",
        HealingStepType::Reboot => "reboot the machine",
    }
}

const fn default_timeout(step: HealingStepType) -> SignedDuration {
    match step {
        HealingStepType::RestartKubernetes => SignedDuration::from_mins(5),
        HealingStepType::ReapplyPlan => SignedDuration::from_mins(10),
        HealingStepType::Reboot => SignedDuration::from_mins(15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_and_limits_are_the_users() {
        let ladder =
            |spec: serde_json::Value| Ladder::of(Some(&serde_json::from_value(spec).expect("a spec")));
        let usual = Ladder::of(None);
        assert_eq!(ladder(json!({})), usual);
        assert_eq!((usual.rungs.len(), usual.at_once, usual.wait), (3, 1, SignedDuration::ZERO));
        let own = ladder(json!({
            "waitSeconds": 60, "steps": [{"type": "Reboot", "timeoutSeconds": 30}], "maxInFlight": 0,
            "silentAfterSeconds": 5, "minHealthyPeriodSeconds": 7}));
        let rung = Rung { what: HealingStepType::Reboot, timeout: SignedDuration::from_secs(30) };
        assert_eq!((&own.rungs, own.at_once, own.wait.as_secs()), (&vec![rung], 0, 60));
        assert_eq!(own.to_string(), "no machine is healed in place (spec.healing.maxInFlight is 0)");
        assert!(usual.to_string().starts_with("restart Kubernetes (300 s), carry out"), "{usual}");
        assert_eq!((own.silent_after.as_secs(), own.min_healthy.as_secs()), (5, 7));
    }
}
