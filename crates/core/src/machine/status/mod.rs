//! The status of a Machine: phase and conditions, computed from what was observed. Pure.

mod node;
mod ready;
mod up_to_date;

use capstan_api::conditions::{ConditionStatus, NewCondition, reasons, set, types};
use capstan_api::core::{Machine, MachinePhase};
use capstan_controller::{Next, in_place};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::decide::delete::Deletion;
use super::decide::provision::{data_secret_created, deleting, provisioned};
use super::decide::update::UpdateProgress;
use super::observe::{NodeReading, Observed};
use crate::external::{self, Mirrored, Reading};
use crate::names::CHECK_LOGS;
use crate::names::machine::{reasons as machine_reasons, types as machine_types};

/// Condition types that this controller owns on every Machine. It owns `UpToDate` only on Machines of a
/// MachineDeployment, where it is the only writer.
pub(super) const OWNED: &[&str] = &[
    types::PAUSED,
    types::AVAILABLE,
    types::READY,
    types::BOOTSTRAP_CONFIG_READY,
    types::INFRASTRUCTURE_READY,
    machine_types::NODE_READY,
    machine_types::NODE_HEALTHY,
    types::DELETING,
    machine_types::UPDATING,
];

/// Sets the phase and every condition. `Ready` and `Available` come last, because they summarize the others.
pub(super) fn update(
    machine: &mut Machine,
    observed: &Observed,
    node: &NodeReading,
    deletion: Option<&Deletion>,
    now: Timestamp,
) -> Next {
    let bootstrap = bootstrap_ready(machine, &observed.bootstrap, now);
    set(machine, bootstrap, now);
    let infrastructure = infrastructure_ready(machine, &observed.infrastructure, now);
    set(machine, infrastructure, now);
    for condition in node::conditions(machine, &observed.cluster, node, observed.health, now) {
        set(machine, condition, now);
    }
    let condition = deleting_condition(machine, deletion);
    set(machine, condition, now);
    let condition = updating(machine, observed.update.as_ref());
    set(machine, condition, now);
    if let (Some(machine_set), Some(deployment)) = (&observed.set, &observed.deployment) {
        let condition = up_to_date::up_to_date(machine, machine_set, deployment, now);
        set(machine, condition, now);
    }
    let condition = ready::ready(machine, now);
    set(machine, condition, now);
    set_phase(machine, now);
    let (condition, next) = ready::available(machine, now);
    set(machine, condition, now);
    next
}

fn bootstrap_ready(machine: &Machine, reading: &Reading, now: Timestamp) -> NewCondition {
    let Some(reference) = &machine.spec.bootstrap.config_ref else {
        let reason = machine_reasons::DATA_SECRET_PROVIDED;
        return NewCondition::new(types::BOOTSTRAP_CONFIG_READY, ConditionStatus::True, reason);
    };
    let mirrored = Mirrored {
        target: types::BOOTSTRAP_CONFIG_READY,
        source: types::READY,
        kind: &reference.kind,
        done: data_secret_created(machine),
        done_field: "status.initialization.dataSecretCreated",
        fallback: (reasons::READY, reasons::NOT_READY),
        deleting: deleting(machine),
        // Once a machine is up, nobody needs the data it came up with.
        survivor: None,
    };
    mirrored.condition(reading, now)
}

fn infrastructure_ready(machine: &Machine, reading: &Reading, now: Timestamp) -> NewCondition {
    let kind = &machine.spec.infrastructure_ref.kind;
    external::infrastructure_ready(kind, provisioned(machine), deleting(machine), "Machine")
        .condition(reading, now)
}

fn deleting_condition(machine: &Machine, deletion: Option<&Deletion>) -> NewCondition {
    let new = NewCondition::new;
    match deletion {
        Some(deletion) => new(types::DELETING, true, deletion.reason).message(&*deletion.message),
        None if deleting(machine) => new(types::DELETING, true, reasons::INTERNAL_ERROR).message(CHECK_LOGS),
        None => new(types::DELETING, false, reasons::NOT_DELETING),
    }
}

fn updating(machine: &Machine, update: Option<&UpdateProgress>) -> NewCondition {
    if !in_place::is_updating(&machine.metadata) {
        return NewCondition::new(machine_types::UPDATING, false, machine_reasons::NOT_UPDATING);
    }
    let (reason, message) = match update {
        Some(progress) => (progress.reason, progress.message.as_str()),
        None => (machine_reasons::IN_PLACE_UPDATING, "In-place update in progress"),
    };
    NewCondition::new(machine_types::UPDATING, true, reason).message(message)
}

fn set_phase(machine: &mut Machine, now: Timestamp) {
    let before = machine.status.as_ref().and_then(|status| status.phase);
    let phase = phase(machine, before);
    let status = machine.status.get_or_insert_default();
    status.phase = Some(phase);
    if before != Some(phase) {
        status.last_updated = Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    }
}

fn phase(machine: &Machine, before: Option<MachinePhase>) -> MachinePhase {
    let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    if deleting(machine) {
        MachinePhase::Deleting
    } else if capstan_api::conditions::is_true(machine, machine_types::UPDATING) {
        MachinePhase::Updating
    } else if has_node && provisioned(machine) {
        MachinePhase::Running
    } else if machine.spec.provider_id.is_some() {
        MachinePhase::Provisioned
    } else if data_secret_created(machine) && !provisioned(machine) {
        MachinePhase::Provisioning
    } else {
        before.unwrap_or(MachinePhase::Pending)
    }
}
