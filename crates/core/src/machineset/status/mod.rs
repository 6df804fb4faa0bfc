//! The status of a MachineSet: counters, versions and conditions, all from what was seen. Pure.

pub(crate) mod words;

use capstan_api::conditions::{
    Aggregate, ConditionStatus, MergeStrategy, NewCondition, Reasons, has, is_true, reasons, set, types,
};
use capstan_api::core::{Machine, MachineSet};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Expression, Selector};

use super::decide::machine::{is_annotated, is_to_be_remediated, is_updating};
use super::names::in_place;
use crate::names::CHECK_LOGS;
use crate::names::machine::types as machine_types;
use crate::versions;

/// Condition types that belong to this controller.
pub(crate) const OWNED: [&str; 7] = [
    types::PAUSED,
    types::SCALING_UP,
    types::SCALING_DOWN,
    types::MACHINES_READY,
    types::MACHINES_UP_TO_DATE,
    types::REMEDIATING,
    types::DELETING,
];

/// A Machine this young may not have been reconciled yet.
const NOT_LOOKED_AT_YET: SignedDuration = SignedDuration::from_secs(10);

/// What a reconcile has observed.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The Machines; `None` if they could not be read.
    pub machines: Option<Vec<Machine>>,
    /// Kinds of templates that do not exist.
    pub missing_templates: Vec<String>,
    /// Why no Machine may be created now.
    pub preflight_failures: Vec<String>,
    /// Why surplus Machines are kept.
    pub kept_back: Vec<String>,
}

/// Computes the status from the observation.
pub fn update(target: &mut MachineSet, seen: &Seen, now: Timestamp) {
    let selector = selector_text(&target.spec.selector);
    let status = target.status.get_or_insert_default();
    status.selector = selector;
    if let Some(machines) = &seen.machines {
        let working: Vec<&Machine> = machines.iter().filter(|machine| !is_updating(machine)).collect();
        let count =
            |type_: &str| Some(whole(working.iter().filter(|machine| is_true(**machine, type_)).count()));
        status.replicas = Some(whole(machines.len()));
        status.ready_replicas = count(types::READY);
        status.available_replicas = count(types::AVAILABLE);
        status.up_to_date_replicas = count(machine_types::UP_TO_DATE);
        status.versions = versions::of_machines(machines);
    }
    for condition in conditions(target, seen, now) {
        set(target, condition, now);
    }
}

fn conditions(target: &MachineSet, seen: &Seen, now: Timestamp) -> Vec<NewCondition> {
    let Some(machines) = &seen.machines else {
        return OWNED
            .iter()
            .filter(|type_| **type_ != types::PAUSED)
            .map(|type_| unknown(type_, reasons::INTERNAL_ERROR, CHECK_LOGS))
            .collect();
    };
    vec![
        scaling_up(target, machines, seen),
        scaling_down(target, machines, seen, now),
        machines_ready(machines),
        machines_up_to_date(machines, now),
        remediating(machines, "MachineSet"),
        deleting(target, machines, now),
    ]
}

fn scaling_up(target: &MachineSet, machines: &[Machine], seen: &Seen) -> NewCondition {
    let Some(wanted) = wanted(target) else { return waiting_for_replicas(types::SCALING_UP) };
    let missing = missing_templates(&seen.missing_templates);
    let have = whole(machines.len());
    if have >= wanted {
        let condition = NewCondition::new(types::SCALING_UP, false, reasons::NOT_SCALING_UP);
        let alive = target.metadata.deletion_timestamp.is_none();
        return match missing.filter(|_| alive) {
            Some(missing) => condition.message(format!("Scaling up would be blocked because {missing}")),
            None => condition,
        };
    }
    let mut message = format!("Scaling up from {have} to {wanted} replicas");
    let blocks: Vec<String> =
        seen.preflight_failures.iter().chain(&missing).map(|block| format!("* {block}")).collect();
    if !blocks.is_empty() {
        message.push_str(&format!(" is blocked because:\n{}", blocks.join("\n")));
    }
    NewCondition::new(types::SCALING_UP, true, reasons::SCALING_UP).message(message)
}

fn scaling_down(target: &MachineSet, machines: &[Machine], seen: &Seen, now: Timestamp) -> NewCondition {
    let Some(wanted) = wanted(target) else { return waiting_for_replicas(types::SCALING_DOWN) };
    let counted = machines.iter().filter(|m| !is_annotated(m, in_place::PENDING_ACKNOWLEDGE_MOVE)).count();
    let have = whole(counted);
    if have <= wanted {
        return NewCondition::new(types::SCALING_DOWN, false, reasons::NOT_SCALING_DOWN);
    }
    let mut message = format!("Scaling down from {have} to {wanted} replicas");
    let blocks: Vec<String> = seen.kept_back.iter().map(|block| format!("* {block}")).collect();
    if !blocks.is_empty() {
        message.push_str(&format!(" is blocked because:\n{}", blocks.join("\n")));
    }
    NewCondition::new(types::SCALING_DOWN, true, reasons::SCALING_DOWN)
        .message(words::with_line(message, &words::stale_machines(machines, now)))
}

/// `MachinesReady`, from what the Machines say.
pub(crate) fn machines_ready(machines: &[Machine]) -> NewCondition {
    let reported =
        Reasons { issue: reasons::NOT_READY, unknown: reasons::READY_UNKNOWN, info: reasons::READY };
    over(machines.iter().collect(), types::READY, types::MACHINES_READY, reported)
}

/// `MachinesUpToDate`, from what the Machines say.
pub(crate) fn machines_up_to_date(machines: &[Machine], now: Timestamp) -> NewCondition {
    let reported = Reasons {
        issue: reasons::NOT_UP_TO_DATE,
        unknown: reasons::UP_TO_DATE_UNKNOWN,
        info: reasons::UP_TO_DATE,
    };
    let looked_at = |machine: &&Machine| {
        let created = machine.metadata.creation_timestamp.as_ref();
        has(*machine, machine_types::UP_TO_DATE)
            || created.is_none_or(|created| now.duration_since(created.0) > NOT_LOOKED_AT_YET)
    };
    let machines = machines.iter().filter(looked_at).collect();
    over(machines, machine_types::UP_TO_DATE, types::MACHINES_UP_TO_DATE, reported)
}

fn over(machines: Vec<&Machine>, source: &str, target: &str, reported: Reasons<'_>) -> NewCondition {
    if machines.is_empty() {
        return NewCondition::new(target, true, reasons::NO_REPLICAS);
    }
    let strategy = MergeStrategy::new().reasons(reported);
    let merged = Aggregate::over(source).to(target).strategy(strategy).aggregate(machines);
    merged.unwrap_or_else(|_| unknown(target, reasons::INTERNAL_ERROR, CHECK_LOGS))
}

/// `Remediating`, from what the Machines say.
pub(crate) fn remediating(machines: &[Machine], by: &str) -> NewCondition {
    let sick: Vec<&Machine> = machines.iter().filter(|machine| is_to_be_remediated(machine)).collect();
    if sick.is_empty() {
        return NewCondition::new(types::REMEDIATING, false, reasons::NOT_REMEDIATING)
            .message(words::unhealthy_machines(machines, by));
    }
    let merged = Aggregate::over(machine_types::OWNER_REMEDIATED).to(types::REMEDIATING).aggregate(sick);
    match merged {
        Ok(merged) => {
            NewCondition::new(types::REMEDIATING, true, reasons::REMEDIATING).message(merged.message)
        }
        Err(_) => unknown(types::REMEDIATING, reasons::INTERNAL_ERROR, CHECK_LOGS),
    }
}

fn deleting(target: &MachineSet, machines: &[Machine], now: Timestamp) -> NewCondition {
    if target.metadata.deletion_timestamp.is_none() {
        return NewCondition::new(types::DELETING, false, reasons::NOT_DELETING);
    }
    let message = words::deleting(machines, now).unwrap_or_else(|| "Deletion completed".to_owned());
    NewCondition::new(types::DELETING, true, reasons::DELETING).message(message)
}

fn wanted(target: &MachineSet) -> Option<i32> {
    let replicas = target.spec.replicas?;
    Some(if target.metadata.deletion_timestamp.is_some() { 0 } else { replicas })
}

pub(crate) fn waiting_for_replicas(type_: &str) -> NewCondition {
    unknown(type_, reasons::WAITING_FOR_REPLICAS_SET, "Waiting for spec.replicas set")
}

pub(crate) fn unknown(type_: &str, reason: &str, message: &str) -> NewCondition {
    NewCondition::new(type_, ConditionStatus::Unknown, reason).message(message)
}

/// `A does not exist`, `A and B do not exist`.
pub(crate) fn missing_templates(kinds: &[String]) -> Option<String> {
    match kinds {
        [] => None,
        [kind] => Some(format!("{kind} does not exist")),
        kinds => Some(format!("{} do not exist", kinds.join(" and "))),
    }
}

/// The selector as `kubectl` writes it; none if it is empty or malformed.
pub(crate) fn selector_text(selector: &LabelSelector) -> Option<String> {
    let selector = Selector::try_from(selector.clone()).ok()?;
    let mut parts: Vec<Expression> = selector.into_iter().collect();
    parts.sort_by_key(|part| part.to_string().trim_start_matches('!').to_owned());
    let text = parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    (!text.is_empty()).then_some(text)
}

/// More Machines than fit do not fit into the API server either.
pub(crate) fn whole(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
