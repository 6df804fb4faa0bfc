//! The conditions `AgentConnected`, `AgentHealthy`, `MachineAsPlanned` and `ProbesHealthy` of a Machine. Pure.

use capstan_api::agent::{DriftItem, MachineReport, PlanPhase, ProbeResult};
use capstan_api::bootstrap::{
    AGENT_CONNECTED, AGENT_HEALTHY, MACHINE_AS_PLANNED, PROBES_HEALTHY, connection_reasons as reasons,
    drift_reasons, health_reasons, probe_reasons,
};
use capstan_api::conditions::{ConditionStatus, NewCondition, has, is_true};
use capstan_api::core::Machine;
use capstan_api::wait::{Wait, causes};

use super::Contact;

/// The condition `AgentConnected`; `None` if the contact is unknown or the condition is current.
pub(crate) fn condition(machine: &Machine, contact: Contact) -> Option<NewCondition> {
    let was_connected = is_true(machine, AGENT_CONNECTED);
    match contact {
        Contact::Unknown => None,
        Contact::Connected => Some(NewCondition::new(AGENT_CONNECTED, true, reasons::CONNECTED)),
        // The time was found out by the process that has said so.
        Contact::Silent(_) if has(machine, AGENT_CONNECTED) && !was_connected => None,
        Contact::Silent(last) => {
            let message = format!("The agent has not contacted the management plane since {}", seconds(last));
            Some(Wait::new(&causes::AGENT_SILENT, message).condition(AGENT_CONNECTED))
        }
    }
}

/// The condition `AgentHealthy`; `None` if the agent has never reported a problem.
pub(crate) fn health(machine: &Machine, report: &MachineReport) -> Option<NewCondition> {
    match report.status.as_ref().and_then(|status| status.problem.as_ref()) {
        Some(problem) => {
            let message = format!("The agent cannot work: {problem}");
            Some(Wait::new(&causes::AGENT_PROBLEM, message).condition(AGENT_HEALTHY))
        }
        None if has(machine, AGENT_HEALTHY) => {
            Some(NewCondition::new(AGENT_HEALTHY, true, health_reasons::HEALTHY))
        }
        None => None,
    }
}

/// Number of failed probes that a message names.
const MOST_PROBES: usize = 5;

/// The condition `ProbesHealthy`; `None` if no probe has ever failed. While a plan is in progress the condition is
/// kept, because probes fail during a restart.
pub(crate) fn probes(machine: &Machine, report: &MachineReport, contact: Contact) -> Option<NewCondition> {
    let had = has(machine, PROBES_HEALTHY);
    if let Contact::Silent(_) = contact {
        return had.then(|| {
            NewCondition::new(PROBES_HEALTHY, ConditionStatus::Unknown, probe_reasons::RESULTS_OLD)
        });
    }
    let status = report.status.as_ref()?;
    if matches!(status.phase, Some(PlanPhase::Applying | PlanPhase::Waiting)) {
        return None;
    }
    let failed: Vec<&ProbeResult> = status.probes.iter().filter(|probe| !probe.healthy).collect();
    if failed.is_empty() {
        // An agent that has just been started has no results yet.
        let is_known = !status.probes.is_empty();
        return (had && is_known).then(|| NewCondition::new(PROBES_HEALTHY, true, probe_reasons::HEALTHY));
    }
    let lines = failed.iter().take(MOST_PROBES).map(|probe| {
        let message = probe.message.as_deref().unwrap_or("the probe failed");
        let since = probe.since.as_ref().map(|since| format!(" since {}", seconds(since.0)));
        format!("* {}: {message}{}", probe.name, since.unwrap_or_default())
    });
    let more = failed.len().saturating_sub(MOST_PROBES);
    let more = (more > 0).then(|| format!("* {more} more"));
    let message = lines.chain(more).collect::<Vec<_>>().join("\n");
    Some(Wait::new(&causes::PROBE_FAILED, message).condition(PROBES_HEALTHY))
}

/// Number of changes that a message lists.
const MOST_CHANGES: usize = 5;

/// The condition `MachineAsPlanned`; `None` if the agent has never found a change. The report of an agent that has just
/// started lists no change, because the agent has not checked yet.
pub(crate) fn drift(machine: &Machine, report: &MachineReport) -> Option<NewCondition> {
    let status = report.status.as_ref()?;
    let (repaired, open): (Vec<&DriftItem>, Vec<&DriftItem>) =
        status.drift.iter().partition(|item| item.repaired.is_some());
    let list = |items: &[&DriftItem]| {
        let lines = items.iter().take(MOST_CHANGES).map(|item| drift_line(item));
        let more = items.len().saturating_sub(MOST_CHANGES);
        let more = (more > 0).then(|| format!("* {more} more"));
        lines.chain(more).collect::<Vec<_>>().join("\n")
    };
    if !open.is_empty() {
        return Some(Wait::new(&causes::MACHINE_DRIFTED, list(&open)).condition(MACHINE_AS_PLANNED));
    }
    if !repaired.is_empty() {
        let condition = NewCondition::new(MACHINE_AS_PLANNED, true, drift_reasons::REPAIRED);
        return Some(condition.message(list(&repaired)));
    }
    has(machine, MACHINE_AS_PLANNED)
        .then(|| NewCondition::new(MACHINE_AS_PLANNED, true, drift_reasons::UNCHANGED))
}

fn drift_line(item: &DriftItem) -> String {
    let times = if item.times > 1 { format!(" ({} times)", item.times) } else { String::new() };
    let state = match (&item.repaired, &item.message) {
        (Some(at), _) => format!("; repaired at {}", seconds(at.0)),
        (None, Some(message)) => format!(": {message}"),
        (None, None) => String::new(),
    };
    format!("* step {}: {}{times} since {}{state}", item.step, item.found, seconds(item.since.0))
}

/// The time without its fraction.
fn seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::conditions::set;
    use jiff::Timestamp;
    use serde_json::json;

    fn machine() -> Machine {
        let machine = json!({"apiVersion": "x/v1", "kind": "Machine", "metadata": {"name": "web-0"}, "spec": {
            "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"}}});
        serde_json::from_value(machine).expect("a Machine")
    }

    #[test]
    fn problems_of_the_agent_are_in_the_condition_until_they_are_gone() {
        let mut machine = machine();
        for (problem, expected) in [
            (None, None),
            (Some("the disk is full"), Some(("AgentProblem", "The agent cannot work: the disk is full"))),
            (None, Some(("Healthy", ""))),
        ] {
            let report = json!({"apiVersion": "x/v1", "kind": "MachineReport", "metadata": {"name": "web-0"},
                "spec": {"machineName": "web-0", "machineID": "1"}, "status": {"problem": problem}});
            let said = health(&machine, &serde_json::from_value(report).expect("a MachineReport"));
            let words = said.as_ref().map(|said| (said.reason.as_ref(), said.message.as_ref()));
            assert_eq!(words, expected);
            if let Some(said) = said {
                set(&mut machine, said, Timestamp::UNIX_EPOCH);
            }
        }
    }

    #[test]
    fn failed_probes_are_reported_until_they_succeed() {
        let mut machine = machine();
        let probe = |name: &str, healthy: bool| {
            json!({"name": name, "healthy": healthy, "message": (!healthy).then_some("the answer was 500"),
                "since": "2026-11-18T12:00:00Z"})
        };
        let good = || vec![probe("api", true), probe("kubelet", true)];
        let bad = || vec![probe("api", true), probe("kubelet", false)];
        let failed = "* kubelet: the answer was 500 since 2026-11-18T12:00:00Z";
        let silent = Contact::Silent(Timestamp::UNIX_EPOCH);
        for (step, phase, probes, contact, expected) in [
            ("never failed", "Applied", good(), Contact::Connected, None),
            ("during a plan", "Applying", bad(), Contact::Connected, None),
            ("at a gate", "Waiting", bad(), Contact::Connected, None),
            ("failed", "Applied", bad(), Contact::Connected, Some(("False", "ProbeFailed", failed))),
            (
                "after a failed plan",
                "Failed",
                bad(),
                Contact::Unknown,
                Some(("False", "ProbeFailed", failed)),
            ),
            ("just started", "Applied", vec![], Contact::Connected, None),
            ("silent", "Applied", bad(), silent, Some(("Unknown", "ResultsOld", ""))),
            ("back", "Applied", good(), Contact::Connected, Some(("True", "Healthy", ""))),
            ("the next plan", "Applying", bad(), Contact::Connected, None),
        ] {
            let report = json!({"apiVersion": "x/v1", "kind": "MachineReport", "metadata": {"name": "web-0"},
                "spec": {"machineName": "web-0", "machineID": "1"}, "status": {"phase": phase, "probes": probes}});
            let report = serde_json::from_value(report).expect("a MachineReport");
            let said = super::probes(&machine, &report, contact);
            let words = said.as_ref().map(|said| {
                let status = serde_json::to_value(said.status).expect("a status");
                (status.as_str().expect("text").to_owned(), said.reason.to_string(), said.message.to_string())
            });
            let expected = expected
                .map(|(status, reason, message)| (status.to_owned(), reason.to_owned(), message.to_owned()));
            assert_eq!(words, expected, "{step}");
            if let Some(said) = said {
                set(&mut machine, said, Timestamp::UNIX_EPOCH);
            }
        }
        let many: Vec<_> = (0..9).map(|number| probe(&format!("p{number}"), false)).collect();
        let report = json!({"apiVersion": "x/v1", "kind": "MachineReport", "metadata": {"name": "web-0"},
            "spec": {"machineName": "web-0", "machineID": "1"}, "status": {"phase": "Applied", "probes": many}});
        let report = serde_json::from_value(report).expect("a MachineReport");
        let said = probes(&machine, &report, Contact::Connected).expect("a condition");
        assert!(said.message.ends_with("\n* 4 more"), "{}", said.message);
    }

    #[test]
    fn changes_on_the_machine_are_in_the_condition_until_they_are_repaired() {
        let mut machine = machine();
        let item = |repaired: Option<&str>| {
            json!({"step": "config", "found": "/etc/app is missing", "since": "2026-11-18T12:00:00Z",
                "times": 2, "repaired": repaired, "message": "cannot repair it: no room"})
        };
        let (begin, end) = (
            "* step config: /etc/app is missing (2 times) since 2026-11-18T12:00:00Z",
            "2026-11-18T12:05:00Z",
        );
        for (items, expected) in [
            (vec![], None),
            (vec![item(None)], Some(("Drifted", format!("{begin}: cannot repair it: no room")))),
            (
                vec![item(Some(end)), item(None)],
                Some(("Drifted", format!("{begin}: cannot repair it: no room"))),
            ),
            (vec![item(Some(end))], Some(("Repaired", format!("{begin}; repaired at {end}")))),
            (vec![], Some(("Unchanged", String::new()))),
        ] {
            let report = json!({"apiVersion": "x/v1", "kind": "MachineReport", "metadata": {"name": "web-0"},
                "spec": {"machineName": "web-0", "machineID": "1"}, "status": {"drift": items}});
            let said = drift(&machine, &serde_json::from_value(report).expect("a MachineReport"));
            let words = said.as_ref().map(|said| (said.reason.as_ref(), said.message.to_string()));
            assert_eq!(words, expected);
            if let Some(said) = said {
                set(&mut machine, said, Timestamp::UNIX_EPOCH);
            }
        }
        let many = (0..9).map(|_| item(None)).collect::<Vec<_>>();
        let report = json!({"apiVersion": "x/v1", "kind": "MachineReport", "metadata": {"name": "web-0"},
            "spec": {"machineName": "web-0", "machineID": "1"}, "status": {"drift": many}});
        let said =
            drift(&machine, &serde_json::from_value(report).expect("a MachineReport")).expect("something");
        assert!(said.message.ends_with("\n* 4 more"), "{}", said.message);
    }

    #[test]
    fn silence_is_written_once_with_the_last_contact() {
        let mut machine = machine();
        let at = |second| Timestamp::from_second(second).expect("a time");
        assert_eq!(condition(&machine, Contact::Unknown), None);
        let silent = "The agent has not contacted the management plane since 1970-01-01T00:16:40Z";
        for (contact, expected) in [
            (Contact::Connected, Some(("Connected", ""))),
            (Contact::Silent(at(1000)), Some(("AgentSilent", silent))),
            // As after a restart of the manager.
            (Contact::Unknown, None),
            (Contact::Silent(at(2000)), None),
            (Contact::Connected, Some(("Connected", ""))),
        ] {
            let said = condition(&machine, contact);
            let words = said.as_ref().map(|said| (said.reason.as_ref(), said.message.as_ref()));
            assert_eq!(words, expected, "{contact:?}");
            if let Some(said) = said {
                set(&mut machine, said, at(0));
            }
        }
    }
}
