//! The status of a MachineHealthCheck, and the conditions it sets on Machines. Pure.

use capstan_api::conditions::{ConditionStatus, NewCondition, get, set, types as shared};
use capstan_api::core::{Machine, MachineHealthCheck};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::decide::{Allowed, Health, Judgement, Target};
use super::names::{reasons, types};
use crate::names::machine::types as machine_types;

/// Condition types that belong to this controller.
pub(super) const OWNED: [&str; 2] = [shared::PAUSED, types::REMEDIATION_ALLOWED];

/// Writes the numbers into the status. Returns whether the condition has changed.
pub(super) fn update(
    check: &mut MachineHealthCheck,
    targets: &[Target],
    judgement: &Judgement,
    now: Timestamp,
) -> bool {
    let status = check.status.get_or_insert_default();
    status.expected_machines = Some(judgement.expected);
    status.current_healthy = Some(judgement.healthy);
    status.targets = targets.iter().map(|target| target.machine.name_any()).collect();
    status.targets.sort();
    let (more, condition) = match &judgement.allowed {
        Allowed::Yes(more) => {
            (*more, NewCondition::new(types::REMEDIATION_ALLOWED, true, reasons::REMEDIATION_ALLOWED))
        }
        Allowed::No(why) => (
            0,
            NewCondition::new(types::REMEDIATION_ALLOWED, false, reasons::TOO_MANY_UNHEALTHY).message(why),
        ),
    };
    status.remediations_allowed = Some(more);
    set(check, condition, now)
}

/// Sets on a Machine what was found. Nothing, while it is waited for.
pub(super) fn set_health(machine: &mut Machine, health: &Health, now: Timestamp) {
    let succeeded = machine_types::HEALTH_CHECK_SUCCEEDED;
    let condition = match health {
        Health::Waiting(_) => return,
        Health::Healthy => NewCondition::new(succeeded, true, reasons::HEALTH_CHECK_SUCCEEDED),
        Health::Unhealthy { reason, message } => {
            NewCondition::new(succeeded, ConditionStatus::False, *reason).message(message)
        }
    };
    set(machine, condition, now);
}

/// Asks the owner to act, unless it has begun already or the Machine is being deleted.
pub(super) fn ask_owner(machine: &mut Machine, now: Timestamp) {
    let asked = get(machine, machine_types::OWNER_REMEDIATED);
    if machine.metadata.deletion_timestamp.is_none()
        && asked.is_none_or(|asked| asked.status == ConditionStatus::True)
    {
        let type_ = machine_types::OWNER_REMEDIATED;
        let ask = NewCondition::new(type_, ConditionStatus::False, reasons::WAITING_FOR_REMEDIATION);
        set(machine, ask.message("Waiting for remediation"), now);
    }
}
