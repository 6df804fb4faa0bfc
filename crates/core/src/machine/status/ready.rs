//! The conditions `Ready` and `Available` of a Machine, and the message about a slow deletion.

use capstan_api::conditions::{
    ConditionStatus, MergeStrategy, NewCondition, Priority, Reasons, Source, Summary, get, reasons, types,
};
use capstan_api::core::Machine;
use capstan_api::meta::ConditionPolarity;
use capstan_controller::Next;
use jiff::{SignedDuration, Timestamp};

use super::super::decide::provision::deleting;
use crate::names::CHECK_LOGS;
use crate::names::machine::{reasons as machine_reasons, types as machine_types};
use crate::slow_deletion::{LONG_DELETION, LONG_DRAIN, delay};

/// The conditions that `Ready` summarizes for every Machine, most relevant first.
const GATES: [&str; 6] = [
    types::DELETING,
    machine_types::UPDATING,
    types::BOOTSTRAP_CONFIG_READY,
    types::INFRASTRUCTURE_READY,
    machine_types::NODE_HEALTHY,
    machine_types::HEALTH_CHECK_SUCCEEDED,
];

pub(super) fn ready(machine: &Machine, now: Timestamp) -> NewCondition {
    let gates = &machine.spec.readiness_gates;
    let negative = gates
        .iter()
        .filter(|gate| gate.polarity == Some(ConditionPolarity::Negative))
        .map(|gate| &*gate.condition_type);
    let is_deleting = deleting(machine);
    let strategy = MergeStrategy::new()
        .negative([types::DELETING, machine_types::UPDATING])
        .negative(negative)
        .reasons(Reasons { issue: reasons::NOT_READY, unknown: reasons::READY_UNKNOWN, info: reasons::READY })
        .weigh(move |source, usual| weigh(is_deleting, source, usual))
        .rewrite(group_control_plane);
    Summary::over(GATES.into_iter().chain(gates.iter().map(|gate| &*gate.condition_type)))
        .ignore_if_missing([machine_types::HEALTH_CHECK_SUCCEEDED])
        .overriding(is_deleting.then(|| deletion_in_short(machine, now)))
        .strategy(strategy)
        .summarize(machine, types::READY)
        .unwrap_or_else(|_| internal_error(types::READY))
}

/// Conditions of objects that are deleted before the Machine are not issues while the Machine is being deleted.
fn weigh(is_deleting: bool, source: &Source<'_>, usual: Priority) -> Priority {
    let is_gone = match source.type_ {
        types::BOOTSTRAP_CONFIG_READY | types::INFRASTRUCTURE_READY => {
            matches!(source.reason, reasons::OBJECT_DELETED | reasons::OBJECT_DOES_NOT_EXIST)
        }
        machine_types::NODE_HEALTHY => {
            matches!(source.reason, machine_reasons::NODE_DELETED | machine_reasons::NODE_DOES_NOT_EXIST)
        }
        _ => false,
    };
    if is_deleting && is_gone { Priority::Info } else { usual }
}

/// Without names and times, so that the messages of many Machines are equal and can be merged into one line.
fn deletion_in_short(machine: &Machine, now: Timestamp) -> NewCondition {
    let condition = get(machine, types::DELETING);
    let stage = condition.map_or(reasons::DELETING, |condition| condition.reason.as_str());
    let long =
        |since: Option<&Timestamp>, limit| since.is_some_and(|since| now.duration_since(*since) > limit);
    let since = machine.metadata.deletion_timestamp.as_ref().map(|time| &time.0);
    let deletion = machine.status.as_ref().and_then(|status| status.deletion.as_ref());
    let drain = deletion.and_then(|deletion| deletion.node_drain_start_time.as_ref()).map(|time| &time.0);
    let mut message = match long(since, LONG_DELETION) {
        true => format!("Machine deletion in progress since more than 15m, stage: {stage}"),
        false => format!("Machine deletion in progress, stage: {stage}"),
    };
    if long(since, LONG_DELETION) && long(drain, LONG_DRAIN) && stage == machine_reasons::DRAINING_NODE {
        let said = condition.map_or("", |condition| condition.message.as_str());
        message.push_str(&delay(&[said]).unwrap_or_default());
    }
    NewCondition::new(types::DELETING, ConditionStatus::True, reasons::DELETING).message(message)
}

/// Merges equal messages of the components of a control plane into one.
fn group_control_plane(lines: Vec<String>) -> Vec<String> {
    let is_component = |name: &str| {
        ["* APIServer", "* ControllerManager", "* Scheduler"].iter().any(|prefix| name.starts_with(prefix))
            || name == "* EtcdPodHealthy"
    };
    let said = |line: &str| {
        let (name, message) = line.split_once(':')?;
        is_component(name).then(|| message.to_owned())
    };
    let mut messages = lines.iter().filter_map(|line| said(line));
    let Some(first) = messages.next() else { return lines };
    let mut others = messages.peekable();
    if others.peek().is_none() || others.any(|message| message != first) {
        return lines;
    }
    let mut grouped = Vec::new();
    let mut is_listed = false;
    for line in &lines {
        match said(line) {
            None => grouped.push(line.clone()),
            Some(message) if !is_listed => {
                grouped.push(format!("* Control plane components:{message}"));
                is_listed = true;
            }
            Some(_) => {}
        }
    }
    grouped
}

/// Also returns when to reconcile again.
pub(super) fn available(machine: &Machine, now: Timestamp) -> (NewCondition, Next) {
    let new = |status, reason| NewCondition::new(types::AVAILABLE, status, reason);
    let Some(ready) = get(machine, types::READY) else {
        return (internal_error(types::AVAILABLE), Next::Changed);
    };
    if ready.status != ConditionStatus::True {
        return (new(ConditionStatus::False, reasons::NOT_READY), Next::Changed);
    }
    let needed = SignedDuration::from_secs(machine.spec.min_ready_seconds.unwrap_or_default().into());
    let left = needed - now.duration_since(ready.last_transition_time.0);
    match left.is_positive() {
        false => (new(ConditionStatus::True, reasons::AVAILABLE), Next::Changed),
        true => {
            let condition = new(ConditionStatus::False, machine_reasons::WAITING_FOR_MIN_READY_SECONDS);
            (condition, Next::After(left.unsigned_abs()))
        }
    }
}

fn internal_error(type_: &str) -> NewCondition {
    NewCondition::new(type_, ConditionStatus::Unknown, reasons::INTERNAL_ERROR).message(CHECK_LOGS)
}
