//! The steps of healing, as `spec.healing` of a control plane says them.

use jiff::SignedDuration;
use std::fmt;

/// A step to heal an unhealthy machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealingStep {
    /// Kubernetes on the machine is restarted.
    RestartKubernetes,
    /// The whole plan is applied again.
    ReapplyPlan,
    /// The machine is rebooted.
    Reboot,
}

impl HealingStep {
    /// All steps, the mildest first.
    pub const ALL: [Self; 3] = [Self::RestartKubernetes, Self::ReapplyPlan, Self::Reboot];

    /// Default time for the machine to become healthy.
    pub const fn default_timeout(self) -> SignedDuration {
        match self {
            Self::RestartKubernetes => SignedDuration::from_mins(5),
            Self::ReapplyPlan => SignedDuration::from_mins(10),
            Self::Reboot => SignedDuration::from_mins(15),
        }
    }

    /// What it does, for people.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::RestartKubernetes => "restart Kubernetes",
            Self::ReapplyPlan => "carry out the whole plan again",
            Self::Reboot => "reboot the machine",
        }
    }
}

/// A step with its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// The step.
    pub what: HealingStep,
    /// Time for the machine to become healthy.
    pub timeout: SignedDuration,
}

/// All steps and their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// Time before the first step.
    pub wait: SignedDuration,
    /// The steps, in order.
    pub rungs: Vec<Rung>,
    /// Number of machines of a cluster that are healed at a time.
    pub at_once: usize,
    /// The agent counts as silent after this time without a Lease renewal.
    pub silent_after: SignedDuration,
    /// After this time of health, healing begins with the first step again.
    pub min_healthy: SignedDuration,
}

/// What is done when the user says nothing.
impl Default for Ladder {
    fn default() -> Self {
        let rung = |what: HealingStep| Rung { what, timeout: what.default_timeout() };
        Self {
            wait: SignedDuration::ZERO,
            rungs: HealingStep::ALL.map(rung).to_vec(),
            at_once: 1,
            silent_after: SignedDuration::from_mins(10),
            min_healthy: SignedDuration::from_hours(1),
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
            .map(|rung| format!("{} ({} s)", rung.what.words(), rung.timeout.as_secs()))
            .collect();
        let waits = match self.wait.as_secs() {
            0 => String::new(),
            seconds => format!("wait {seconds} s, "),
        };
        write!(f, "{waits}{}, {} machine(s) at a time", rungs.join(", "), self.at_once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_is_described_step_by_step() {
        let usual = Ladder::default();
        assert!(usual.to_string().starts_with("restart Kubernetes (300 s), carry out"), "{usual}");
        let never = Ladder { at_once: 0, ..usual };
        assert_eq!(never.to_string(), "no machine is healed in place (spec.healing.maxInFlight is 0)");
    }
}
