//! The status of a MachineDeployment: counters, phase and conditions, all from what was seen. Pure.

use capstan_api::conditions::{ConditionStatus, NewCondition, get, reasons, set, types};
use capstan_api::core::{
    Machine, MachineDeployment, MachineDeploymentPhase, MachineSet, MachineSetStatus, RolloutStrategyType,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeSet;

use super::decide::limits::Limits;
use super::decide::rollout::{replicas, strategy};
use super::names::reasons::{ROLLOUT_HELD, WAITING_FOR_AVAILABLE_REPLICAS_SET};
use crate::machineset::remediation::text;
use crate::machineset::status::{
    machines_ready, machines_up_to_date, missing_templates, remediating, selector_text, unknown,
    waiting_for_replicas,
};
use crate::machineset::words;
use crate::names::CHECK_LOGS;
use crate::names::machine::types as machine_types;
use crate::versions;

/// Condition types that belong to this controller.
pub(crate) const OWNED: [&str; 9] = [
    types::PAUSED,
    types::AVAILABLE,
    types::MACHINES_READY,
    types::MACHINES_UP_TO_DATE,
    types::ROLLING_OUT,
    types::SCALING_DOWN,
    types::SCALING_UP,
    types::REMEDIATING,
    types::DELETING,
];

/// What a reconcile has observed.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The MachineSets; `None` if they could not be read.
    pub sets: Option<Vec<MachineSet>>,
    /// The Machines.
    pub machines: Vec<Machine>,
    /// Kinds of templates that do not exist.
    pub missing_templates: Vec<String>,
    /// Why a rollout is held.
    pub held: Option<String>,
}

/// Computes the status from the observation.
pub fn update(target: &mut MachineDeployment, seen: &Seen, now: Timestamp) {
    let selector = selector_text(&target.spec.selector);
    let phase = phase(target, seen);
    let status = target.status.get_or_insert_default();
    status.selector = selector;
    status.phase = Some(phase);
    if let Some(sets) = &seen.sets {
        status.replicas = sum(sets, |status| status.replicas);
        status.ready_replicas = sum(sets, |status| status.ready_replicas);
        status.available_replicas = sum(sets, |status| status.available_replicas);
        status.up_to_date_replicas = sum(sets, |status| status.up_to_date_replicas);
        let all =
            sets.iter().filter_map(|set| set.status.as_ref()).flat_map(|status| status.versions.clone());
        status.versions = versions::aggregate(all);
    }
    for condition in conditions(target, seen, now) {
        set(target, condition, now);
    }
}

fn sum(sets: &[MachineSet], field: fn(&MachineSetStatus) -> Option<i32>) -> Option<i32> {
    sets.iter().filter_map(|set| field(set.status.as_ref()?)).reduce(i32::saturating_add)
}

fn phase(target: &MachineDeployment, seen: &Seen) -> MachineDeploymentPhase {
    let (Some(sets), Some(wanted)) = (&seen.sets, target.spec.replicas) else {
        return MachineDeploymentPhase::Unknown;
    };
    if is_deleting(target) {
        return MachineDeploymentPhase::ScalingDown;
    }
    match wanted.cmp(&replicas(sets)) {
        std::cmp::Ordering::Equal => MachineDeploymentPhase::Running,
        std::cmp::Ordering::Less => MachineDeploymentPhase::ScalingDown,
        std::cmp::Ordering::Greater => MachineDeploymentPhase::ScalingUp,
    }
}

fn conditions(target: &MachineDeployment, seen: &Seen, now: Timestamp) -> Vec<NewCondition> {
    let machines = &seen.machines;
    let mut list = vec![
        rolling_out(machines, seen.held.as_deref()),
        machines_ready(machines),
        machines_up_to_date(machines, now),
        remediating(machines, "MachineDeployment/MachineSet"),
    ];
    match &seen.sets {
        None => list.extend(
            [types::AVAILABLE, types::SCALING_UP, types::SCALING_DOWN, types::DELETING]
                .map(|type_| unknown(type_, reasons::INTERNAL_ERROR, CHECK_LOGS)),
        ),
        Some(sets) => list.extend([
            available(target),
            scaling_up(target, sets, &seen.missing_templates),
            scaling_down(target, sets, machines, now),
            deleting(target, sets, machines, now),
        ]),
    }
    list
}

fn available(target: &MachineDeployment) -> NewCondition {
    let Some(wanted) = target.spec.replicas else { return waiting_for_replicas(types::AVAILABLE) };
    let Some(available) = target.status.as_ref().and_then(|status| status.available_replicas) else {
        let message = "Waiting for status.availableReplicas set";
        return unknown(types::AVAILABLE, WAITING_FOR_AVAILABLE_REPLICAS_SET, message);
    };
    // What is malformed leaves no room.
    let max_unavailable = Limits::of(target).map_or(0, |limits| limits.max_unavailable);
    let needed = wanted - max_unavailable;
    if available >= needed {
        return NewCondition::new(types::AVAILABLE, true, reasons::AVAILABLE);
    }
    let mut message = format!("{available} available replicas, at least {needed} required");
    if strategy(target) == RolloutStrategyType::RollingUpdate {
        let written = max_unavailable_text(target);
        message.push_str(&format!(
            " (spec.strategy.rollout.maxUnavailable is {written}, spec.replicas is {wanted})"
        ));
    }
    if is_deleting(target) {
        "Deletion in progress".clone_into(&mut message);
    }
    NewCondition::new(types::AVAILABLE, false, reasons::NOT_AVAILABLE).message(message)
}

fn max_unavailable_text(target: &MachineDeployment) -> String {
    let strategy = target.spec.rollout.as_ref().and_then(|rollout| rollout.strategy.as_ref());
    let limits = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    text(limits.and_then(|limits| limits.max_unavailable.as_ref()).unwrap_or(&IntOrString::Int(0)))
}

fn rolling_out(machines: &[Machine], held: Option<&str>) -> NewCondition {
    let outdated: Vec<&str> = machines
        .iter()
        .filter_map(|machine| get(machine, machine_types::UP_TO_DATE))
        .filter(|condition| condition.status == ConditionStatus::False)
        .map(|condition| condition.message.as_str())
        .collect();
    if let Some(held) = held {
        return NewCondition::new(types::ROLLING_OUT, true, ROLLOUT_HELD).message(format!("Held: {held}"));
    }
    if outdated.is_empty() {
        return NewCondition::new(types::ROLLING_OUT, false, reasons::NOT_ROLLING_OUT);
    }
    let lines: BTreeSet<(bool, &str)> = outdated
        .iter()
        .filter(|message| !message.is_empty())
        .flat_map(|message| message.split('\n'))
        // A change of version first.
        .map(|line| (!line.starts_with("* Version"), line))
        .collect();
    let mut message = format!("Rolling out {} not up-to-date replicas", outdated.len());
    for (_, line) in lines {
        message.push('\n');
        message.push_str(line);
    }
    NewCondition::new(types::ROLLING_OUT, true, reasons::ROLLING_OUT).message(message)
}

fn scaling_up(target: &MachineDeployment, sets: &[MachineSet], missing: &[String]) -> NewCondition {
    let Some(wanted) = wanted(target) else { return waiting_for_replicas(types::SCALING_UP) };
    let missing = missing_templates(missing).map(|missing| format!("because {missing}"));
    let have = replicas(sets);
    if have >= wanted {
        let condition = NewCondition::new(types::SCALING_UP, false, reasons::NOT_SCALING_UP);
        return match missing.filter(|_| !is_deleting(target)) {
            Some(missing) => condition.message(format!("Scaling up would be blocked {missing}")),
            None => condition,
        };
    }
    let blocked = missing.map(|missing| format!(" is blocked {missing}")).unwrap_or_default();
    NewCondition::new(types::SCALING_UP, true, reasons::SCALING_UP)
        .message(format!("Scaling up from {have} to {wanted} replicas{blocked}"))
}

fn scaling_down(
    target: &MachineDeployment,
    sets: &[MachineSet],
    machines: &[Machine],
    now: Timestamp,
) -> NewCondition {
    let Some(wanted) = wanted(target) else { return waiting_for_replicas(types::SCALING_DOWN) };
    let have = replicas(sets);
    if have <= wanted {
        return NewCondition::new(types::SCALING_DOWN, false, reasons::NOT_SCALING_DOWN);
    }
    let message = format!("Scaling down from {have} to {wanted} replicas");
    NewCondition::new(types::SCALING_DOWN, true, reasons::SCALING_DOWN)
        .message(words::with_line(message, &words::stale_machines(machines, now)))
}

fn deleting(
    target: &MachineDeployment,
    sets: &[MachineSet],
    machines: &[Machine],
    now: Timestamp,
) -> NewCondition {
    if !is_deleting(target) {
        return NewCondition::new(types::DELETING, false, reasons::NOT_DELETING);
    }
    let of_sets = || (!sets.is_empty()).then(|| format!("Deleting {} MachineSets", sets.len()));
    let message = words::deleting(machines, now).or_else(of_sets);
    NewCondition::new(types::DELETING, true, reasons::DELETING)
        .message(message.unwrap_or_else(|| "Deletion completed".to_owned()))
}

fn wanted(target: &MachineDeployment) -> Option<i32> {
    let replicas = target.spec.replicas?;
    Some(if is_deleting(target) { 0 } else { replicas })
}

fn is_deleting(target: &MachineDeployment) -> bool {
    target.metadata.deletion_timestamp.is_some()
}

#[cfg(test)]
#[path = "tests/status.rs"]
mod tests;
