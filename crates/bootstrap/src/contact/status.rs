//! The conditions `AgentConnected`, `AgentHealthy` and `MachineAsPlanned` of a Machine. Pure.

use capstan_api::agent::{DriftItem, MachineReport};
use capstan_api::bootstrap::{
    AGENT_CONNECTED, AGENT_HEALTHY, MACHINE_AS_PLANNED, connection_reasons as reasons, drift_reasons,
    health_reasons,
};
use capstan_api::conditions::{NewCondition, has, is_true};
use capstan_api::core::Machine;
use capstan_api::wait::{Wait, causes};

use super::Contact;

/// What is to be said; nothing if that is not known, or was said already.
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

/// What is to be said of the problem that an agent reports; nothing if it has never reported one.
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

/// How many changes are told.
const MOST_CHANGES: usize = 5;

/// What is to be said of what the agent has found changed; nothing if it has never found anything. A report of a machine that has
/// just been started tells of nothing: it has not looked yet.
pub(crate) fn drift(machine: &Machine, report: &MachineReport) -> Option<NewCondition> {
    let status = report.status.as_ref()?;
    let (repaired, open): (Vec<&DriftItem>, Vec<&DriftItem>) =
        status.drift.iter().partition(|item| item.repaired.is_some());
    let list = |items: &[&DriftItem]| {
        let lines = items.iter().take(MOST_CHANGES).map(|item| tell(item));
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

fn tell(item: &DriftItem) -> String {
    let times = if item.times > 1 { format!(" ({} times)", item.times) } else { String::new() };
    let state = match (&item.repaired, &item.message) {
        (Some(at), _) => format!("; repaired at {}", seconds(at.0)),
        (None, Some(message)) => format!(": {message}"),
        (None, None) => String::new(),
    };
    format!("* step {}: {}{times} since {}{state}", item.step, item.found, seconds(item.since.0))
}

/// The time without its fraction: heartbeats are many seconds apart.
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
    fn problems_of_the_agent_are_told_until_they_are_gone() {
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
    fn changes_on_the_machine_are_told_until_they_are_repaired() {
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
    fn silence_is_told_once_with_the_last_contact() {
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
