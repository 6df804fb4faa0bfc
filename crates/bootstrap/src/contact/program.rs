//! The condition `AgentUpgraded` of a Machine. Pure.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::{AGENT_UPGRADED, upgrade_reasons};
use capstan_api::conditions::{NewCondition, has};
use capstan_api::core::Machine;
use capstan_api::wait::{Wait, causes};

/// Digits of a digest in messages.
const DIGITS: usize = 16;

/// What is to be said of the program of the agent; nothing if the agent could always replace it, or cannot report it.
pub(crate) fn program(machine: &Machine, report: &MachineReport) -> Option<NewCondition> {
    let program = report.status.as_ref()?.agent_program.as_ref()?;
    if let Some(rejected) = &program.rejected {
        let digest: String = rejected.sha256.chars().take(DIGITS).collect();
        let message = format!(
            "The program {digest} of the agent does not work on the machine, and the previous one runs: {}",
            rejected.message
        );
        return Some(Wait::new(&causes::AGENT_UPGRADE_FAILED, message).condition(AGENT_UPGRADED));
    }
    if let Some(message) = &program.message {
        let message = format!("The agent cannot replace its program: {message}");
        return Some(Wait::new(&causes::AGENT_UPGRADE_WAITS, message).condition(AGENT_UPGRADED));
    }
    has(machine, AGENT_UPGRADED).then(|| NewCondition::new(AGENT_UPGRADED, true, upgrade_reasons::UPGRADED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::conditions::set;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    #[test]
    fn a_program_that_does_not_work_is_in_the_condition_until_another_one_runs() {
        let machine = json!({"apiVersion": "x/v1", "kind": "Machine", "metadata": {"name": "web-0"}, "spec": {
            "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"}}});
        let mut machine: Machine = serde_json::from_value(machine).expect("a Machine");
        let digest = |digit: &str| digit.repeat(64);
        let rejected = json!({"sha256": digest("b"), "message": "its self-check exited with 1",
            "since": "2026-11-18T12:00:00Z"});
        let words = "The program bbbbbbbbbbbbbbbb of the agent does not work on the machine, and the previous one runs: its \
                     self-check exited with 1";
        for (case, program, expected) in [
            ("an agent that does not report it", Value::Null, None),
            ("nothing has happened", json!({"sha256": digest("a")}), None),
            ("a trial", json!({"sha256": digest("b"), "onTrial": true}), None),
            (
                "it waits",
                json!({"sha256": digest("a"), "message": "no source has it"}),
                Some(("AgentUpgradeWaits", "The agent cannot replace its program: no source has it")),
            ),
            (
                "it was rejected",
                json!({"sha256": digest("a"), "rejected": rejected}),
                Some(("AgentUpgradeFailed", words)),
            ),
            ("another one runs", json!({"sha256": digest("c")}), Some(("Upgraded", ""))),
        ] {
            let report = json!({"apiVersion": "x/v1", "kind": "MachineReport", "metadata": {"name": "web-0"},
                "spec": {"machineName": "web-0", "machineID": "1"}, "status": {"agentProgram": program}});
            let said = super::program(&machine, &serde_json::from_value(report).expect("a MachineReport"));
            let words = said.as_ref().map(|said| (said.reason.as_ref(), said.message.as_ref()));
            assert_eq!(words, expected, "{case}");
            if let Some(said) = said {
                set(&mut machine, said, Timestamp::UNIX_EPOCH);
            }
        }
    }
}
