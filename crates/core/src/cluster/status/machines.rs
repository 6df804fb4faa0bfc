//! Conditions about all Machines of the control plane, or all workers.

use capstan_api::conditions::{
    Aggregate, ConditionStatus, MergeStrategy, NewCondition, Reasons, has, is_false, reasons, types,
};
use capstan_api::core::Machine;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::super::observe::Observed;
use super::internal_error;
use crate::names::machine::types as machine_types;
use capstan_controller::text::listed;

/// A Machine that is younger than this may not have heard yet whether it is up to date.
const TOO_YOUNG: SignedDuration = SignedDuration::from_secs(10);

pub(super) fn ready(type_: &str, machines: Option<Vec<&Machine>>) -> Option<NewCondition> {
    let reasons =
        Reasons { issue: reasons::NOT_READY, unknown: reasons::READY_UNKNOWN, info: reasons::READY };
    Some(aggregate(type_, types::READY, machines, reasons))
}

pub(super) fn up_to_date(
    type_: &str,
    machines: Option<Vec<&Machine>>,
    now: Timestamp,
) -> Option<NewCondition> {
    let reasons = Reasons {
        issue: reasons::NOT_UP_TO_DATE,
        unknown: reasons::UP_TO_DATE_UNKNOWN,
        info: reasons::UP_TO_DATE,
    };
    let is_old_enough = |machine: &&Machine| {
        let created = machine.creation_timestamp().map_or(now, |time| time.0);
        has(*machine, machine_types::UP_TO_DATE) || now.duration_since(created) > TOO_YOUNG
    };
    let machines = machines.map(|machines| machines.into_iter().filter(is_old_enough).collect());
    Some(aggregate(type_, machine_types::UP_TO_DATE, machines, reasons))
}

fn aggregate(
    target: &str,
    source: &str,
    machines: Option<Vec<&Machine>>,
    reasons: Reasons<'_>,
) -> NewCondition {
    let Some(machines) = machines else { return internal_error(target) };
    if machines.is_empty() {
        return NewCondition::new(target, ConditionStatus::True, reasons::NO_REPLICAS);
    }
    Aggregate::over(source)
        .to(target)
        .strategy(MergeStrategy::new().reasons(reasons))
        .aggregate(machines)
        .unwrap_or_else(|_| internal_error(target))
}

pub(super) fn remediating(observed: &Observed) -> Option<NewCondition> {
    let new = |status, reason: &str| NewCondition::new(types::REMEDIATING, status, reason);
    let Some(descendants) = &observed.descendants else { return Some(internal_error(types::REMEDIATING)) };
    let all = || descendants.control_plane_machines.iter().chain(descendants.reporting_workers());
    let unhealthy = || all().filter(|machine| is_false(*machine, machine_types::HEALTH_CHECK_SUCCEEDED));
    let mut remediated =
        unhealthy().filter(|machine| is_false(*machine, machine_types::OWNER_REMEDIATED)).peekable();
    if remediated.peek().is_none() {
        let names = unhealthy().map(kube::ResourceExt::name_any).collect();
        let message = not_to_be_remediated(names);
        return Some(new(ConditionStatus::False, reasons::NOT_REMEDIATING).message(message));
    }
    let aggregated =
        Aggregate::over(machine_types::OWNER_REMEDIATED).to(types::REMEDIATING).aggregate(remediated);
    Some(match aggregated {
        Ok(condition) => new(ConditionStatus::True, reasons::REMEDIATING).message(condition.message),
        Err(_) => internal_error(types::REMEDIATING),
    })
}

fn not_to_be_remediated(mut names: Vec<String>) -> String {
    names.sort();
    match names.as_slice() {
        [] => String::new(),
        [name] => format!("Machine {name} is not healthy (not to be remediated)"),
        names => format!("Machines {} are not healthy (not to be remediated)", listed(names, 3)),
    }
}
