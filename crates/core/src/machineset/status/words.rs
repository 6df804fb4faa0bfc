//! Messages of MachineSets and MachineDeployments about many Machines. Pure.

use capstan_api::conditions::{ConditionStatus, get, types as shared};
use capstan_api::core::Machine;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use super::super::decide::machine::is_unhealthy;
use crate::names::machine::reasons;
use crate::slow_deletion::{LONG_DELETION, LONG_DRAIN, delay};
use capstan_controller::text::listed;

/// Names in a message; further ones are counted.
const MOST_NAMES: usize = 3;

/// Says which Machines have been on their way out for too long, and why; empty if none has.
pub(crate) fn stale_machines(machines: &[Machine], now: Timestamp) -> String {
    let since = |time: Option<&Time>| time.map(|time| now.duration_since(time.0)).unwrap_or_default();
    let stale: Vec<&Machine> = machines
        .iter()
        .filter(|machine| since(machine.metadata.deletion_timestamp.as_ref()) > LONG_DELETION)
        .collect();
    let Some(subject) = subject(&stale) else { return String::new() };

    let messages: Vec<&str> = stale
        .iter()
        .filter(|machine| {
            let deletion = machine.status.as_ref().and_then(|status| status.deletion.as_ref());
            since(deletion.and_then(|deletion| deletion.node_drain_start_time.as_ref())) > LONG_DRAIN
        })
        .filter_map(|machine| get(*machine, shared::DELETING))
        .filter(|condition| {
            condition.status == ConditionStatus::True && condition.reason == reasons::DRAINING_NODE
        })
        .map(|condition| condition.message.as_str())
        .collect();
    format!("{subject} in deletion since more than 15m{}", delay(&messages).unwrap_or_default())
}

/// Names the unhealthy Machines for which no remediation is requested; empty if there are none.
pub(crate) fn unhealthy_machines(machines: &[Machine], by: &str) -> String {
    let unhealthy: Vec<&Machine> = machines.iter().filter(|machine| is_unhealthy(machine)).collect();
    let subject = subject(&unhealthy);
    subject.map(|subject| format!("{subject} not healthy (not to be remediated by {by})")).unwrap_or_default()
}

/// `Machine a is`, `Machines a, b are`.
fn subject(machines: &[&Machine]) -> Option<String> {
    let mut names: Vec<String> = machines.iter().map(|machine| machine.name_any()).collect();
    names.sort();
    let (noun, verb) = match names.len() {
        0 => return None,
        1 => ("Machine", "is"),
        _ => ("Machines", "are"),
    };
    Some(format!("{noun} {} {verb}", listed(&names, MOST_NAMES)))
}

/// `Deleting 3 Machines`, with those that take long.
pub(crate) fn deleting(machines: &[Machine], now: Timestamp) -> Option<String> {
    let noun = if machines.len() == 1 { "Machine" } else { "Machines" };
    (!machines.is_empty())
        .then(|| with_line(format!("Deleting {} {noun}", machines.len()), &stale_machines(machines, now)))
}

/// `text`, and below it a line for `more` if there is any.
pub(crate) fn with_line(text: String, more: &str) -> String {
    if more.is_empty() { text } else { format!("{text}\n* {more}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::{at, machine};

    #[test]
    fn long_deletions_are_named() {
        let now = Timestamp::from_second(1000).expect("a test value");
        let machines: Vec<Machine> =
            ["d", "b", "a", "c"].into_iter().map(|name| machine(name).deleting().done()).collect();
        assert_eq!(stale_machines(&machines[..1], now), "Machine d is in deletion since more than 15m");
        assert_eq!(
            stale_machines(&machines, now),
            "Machines a, b, c, ... (1 more) are in deletion since more than 15m"
        );
        assert_eq!(stale_machines(&machines, Timestamp::from_second(800).expect("a test value")), "");
    }

    #[test]
    fn the_reason_of_a_long_drain_is_reported() {
        let draining = machine("a")
            .deleting()
            .condition_since("Deleting", true, "DrainingNode", 0)
            .change(|machine| {
                let status = machine.status.get_or_insert_default();
                status.deletion.get_or_insert_default().node_drain_start_time = Some(at(0));
                status.conditions[0].message = "Pod p: failed to evict Pod, waiting for completion".into();
            })
            .done();
        assert_eq!(
            stale_machines(&[draining], Timestamp::from_second(1000).expect("a test value")),
            "Machine a is in deletion since more than 15m, delay likely due to Pod eviction errors, \
             Pods not completed yet"
        );
    }

    #[test]
    fn unhealthy_machines_are_named() {
        let machines = [machine("a").condition("HealthCheckSucceeded", false).done(), machine("b").done()];
        assert_eq!(
            unhealthy_machines(&machines, "MachineSet"),
            "Machine a is not healthy (not to be remediated by MachineSet)"
        );
        assert_eq!(unhealthy_machines(&machines[1..], "MachineSet"), "");
    }
}
