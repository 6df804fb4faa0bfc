//! The condition about the roll-out of agents. Pure.

use capstan_api::conditions::{ConditionStatus, NewCondition};
use capstan_api::controlplane::reasons as own;
use capstan_api::wait::{Wait, causes};
use capstan_planner::plans::AgentUpgrades;

use super::shown;

/// Condition: the machines of the cluster run the agent that is offered to them. Absent until a roll-out begins.
pub(crate) const AGENTS_UPGRADED: &str = "AgentsUpgraded";

/// The condition; `None` if there is none. `was_begun`: there was one before.
pub(super) fn condition(upgrades: &AgentUpgrades, was_begun: bool) -> Option<NewCondition> {
    match upgrades {
        AgentUpgrades::NotOffered => None,
        AgentUpgrades::Done => {
            was_begun.then(|| NewCondition::new(AGENTS_UPGRADED, ConditionStatus::True, own::AGENTS_UPGRADED))
        }
        AgentUpgrades::Underway => {
            let message = "The machines replace their agents, a few at a time";
            Some(Wait::new(&causes::UPGRADING_AGENTS, message).condition(AGENTS_UPGRADED))
        }
        AgentUpgrades::Stopped { rejected, silent } => {
            let mut lines = vec!["No other machine gets the new agent:".to_owned()];
            if !rejected.is_empty() {
                lines.push(format!(
                    "* It does not work on {}; the condition AgentUpgraded of the Machine says more",
                    shown(rejected)
                ));
            }
            if !silent.is_empty() {
                lines
                    .push(format!("* Silent since they were told to replace their agent: {}", shown(silent)));
            }
            Some(Wait::new(&causes::AGENT_ROLLOUT_STOPPED, lines.join("\n")).condition(AGENTS_UPGRADED))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roll_out_that_is_stopped_names_machines() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let stopped = |rejected: &[&str], silent: &[&str]| AgentUpgrades::Stopped {
            rejected: names(rejected),
            silent: names(silent),
        };
        let rejected = "No other machine gets the new agent:\n\
                        * It does not work on w1; the condition AgentUpgraded of the Machine says more";
        let both = "No other machine gets the new agent:\n\
                    * It does not work on w1; the condition AgentUpgraded of the Machine says more\n\
                    * Silent since they were told to replace their agent: w2, w3";
        let (no, yes) = (ConditionStatus::False, ConditionStatus::True);
        type Row<'a> = (AgentUpgrades, bool, Option<(ConditionStatus, &'a str, &'a str)>);
        let table: [Row<'_>; 8] = [
            (AgentUpgrades::NotOffered, true, None),
            (AgentUpgrades::Done, false, None),
            (AgentUpgrades::Done, true, Some((yes, "Upgraded", ""))),
            (
                AgentUpgrades::Underway,
                false,
                Some((no, "UpgradingAgents", "The machines replace their agents, a few at a time")),
            ),
            (stopped(&["w1"], &[]), false, Some((no, "AgentRolloutStopped", rejected))),
            (stopped(&["w1"], &["w2", "w3"]), true, Some((no, "AgentRolloutStopped", both))),
            (
                stopped(&[], &["w2"]),
                true,
                Some((
                    no,
                    "AgentRolloutStopped",
                    "No other machine gets the new agent:\n* Silent since they were told to replace their agent: w2",
                )),
            ),
            (
                stopped(&[], &["1", "2", "3", "4", "5", "6", "7"]),
                true,
                Some((
                    no,
                    "AgentRolloutStopped",
                    "No other machine gets the new agent:\n\
                     * Silent since they were told to replace their agent: 1, 2, 3, 4, 5, ... (2 more)",
                )),
            ),
        ];
        for (upgrades, was_begun, expected) in table {
            let found = condition(&upgrades, was_begun);
            let found = found.as_ref().map(|found| (found.status, &*found.reason, &*found.message));
            assert_eq!(found, expected, "{upgrades:?}");
        }
    }
}
