//! The status of a MachinePool: counters, phase and conditions, all from what was seen. Pure.
//!
//! Counters and phase are upstream's. Upstream sets no condition but `Paused`; the others have the meaning that its API describes
//! for them.

use capstan_api::conditions::{
    ConditionStatus, NewCondition, delete, get, has, is_true, reasons, set, types,
};
use capstan_api::core::{Machine, MachinePool, MachinePoolPhase};
use capstan_api::meta::{StatusVersion, annotations};
use capstan_controller::Knowledge;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use std::cmp::Ordering;
use std::sync::Arc;

use super::decide::defaults::is_deleting;
use super::decide::delete::Deletion;
use super::decide::nodes;
use super::decide::provision::{self, data_secret_created, provisioned};
use super::observe::Observed;
use crate::external::{self, Mirrored, Reading};
use crate::machineset::status::{machines_ready, machines_up_to_date, unknown, waiting_for_replicas, whole};
use crate::names::CHECK_LOGS;
use crate::names::machine::{reasons as machine_reasons, types as machine_types};
use crate::versions;

/// Condition types that belong to this controller.
pub(super) const OWNED: [&str; 9] = [
    types::PAUSED,
    types::AVAILABLE,
    types::BOOTSTRAP_CONFIG_READY,
    types::INFRASTRUCTURE_READY,
    types::MACHINES_READY,
    types::MACHINES_UP_TO_DATE,
    types::SCALING_UP,
    types::SCALING_DOWN,
    types::DELETING,
];

/// Computes the status from the observation.
pub(super) fn update(
    pool: &mut MachinePool,
    observed: &Observed,
    deletion: Option<&Deletion>,
    now: Timestamp,
) {
    if !is_deleting(pool) {
        count(pool, observed);
    }
    let phase = phase(pool, observed.matched.as_ref().map(|matched| matched.ready));
    pool.status.get_or_insert_default().phase = Some(phase);
    let bootstrap = bootstrap_ready(pool, &observed.bootstrap, now);
    set(pool, bootstrap, now);
    let infrastructure = infrastructure_ready(pool, &observed.infrastructure, now);
    set(pool, infrastructure, now);
    match (observed.has_machines(), &observed.machines) {
        (true, Knowledge::Known(machines)) => {
            set(pool, machines_ready(machines), now);
            set(pool, machines_up_to_date(machines, now), now);
        }
        (true, Knowledge::Unknown(_)) => {
            for type_ in [types::MACHINES_READY, types::MACHINES_UP_TO_DATE] {
                set(pool, unknown(type_, reasons::INTERNAL_ERROR, CHECK_LOGS), now);
            }
        }
        // No Machine says anything about the machines of the pool.
        (false, Knowledge::Known(_)) => {
            delete(pool, types::MACHINES_READY);
            delete(pool, types::MACHINES_UP_TO_DATE);
        }
        (false, Knowledge::Unknown(_)) => {}
    }
    let scaling = [scaling_up(pool), scaling_down(pool)];
    for condition in scaling {
        set(pool, condition, now);
    }
    if let Some(condition) = available(pool, observed) {
        set(pool, condition, now);
    }
    let condition = deleting(pool, deletion);
    set(pool, condition, now);
}

/// Numbers of machines. What is unknown stays as it is.
fn count(pool: &mut MachinePool, observed: &Observed) {
    let wanted = pool.spec.replicas;
    let settled = provision::is_list_settled(pool);
    let status = pool.status.get_or_insert_default();
    if let Some(matched) = &observed.matched
        && settled
    {
        let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
        old.ready_replicas = Some(matched.ready);
        old.available_replicas = Some(matched.available);
        old.unavailable_replicas = Some(status.replicas.unwrap_or_default() - matched.available);
    }
    if observed.infrastructure.found().is_none() {
        return;
    }
    match (observed.has_machines(), &observed.machines) {
        (true, Knowledge::Known(machines)) => {
            let count =
                |type_: &str| Some(whole(machines.iter().filter(|machine| is_true(*machine, type_)).count()));
            status.ready_replicas = count(types::READY);
            status.available_replicas = count(types::AVAILABLE);
            status.up_to_date_replicas = count(machine_types::UP_TO_DATE);
            status.versions = versions::of_machines(machines);
        }
        (_, Knowledge::Unknown(_)) => {}
        // Without Machines, upstream counts every machine of the provider.
        (false, Knowledge::Known(_)) => {
            status.ready_replicas = status.replicas;
            status.available_replicas = status.replicas;
            status.up_to_date_replicas = wanted;
            if let Some(matched) = &observed.matched {
                status.versions = versions_of(&matched.nodes);
            }
        }
    }
}

fn versions_of(nodes: &[Arc<Node>]) -> Vec<StatusVersion> {
    let info = |node: &Arc<Node>| Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.clone());
    let versions = nodes.iter().filter_map(info);
    versions::aggregate(versions.map(|version| StatusVersion { version, replicas: Some(1) }))
}

/// `ready` is the number of Nodes that are ready, if it is known. Without it the phase stays what it was.
fn phase(pool: &MachinePool, ready: Option<i32>) -> MachinePoolPhase {
    if is_deleting(pool) {
        return MachinePoolPhase::Deleting;
    }
    let before = pool.status.as_ref().and_then(|status| status.phase);
    if provisioned(pool)
        && let (Some(wanted), Some(ready)) = (pool.spec.replicas, ready)
    {
        // An autoscaler sets the replicas to what there is, so the direction is unknown.
        let is_external = is_scaled_externally(pool);
        return match wanted.cmp(&ready) {
            Ordering::Equal => MachinePoolPhase::Running,
            Ordering::Greater | Ordering::Less if is_external => MachinePoolPhase::Scaling,
            Ordering::Greater => MachinePoolPhase::ScalingUp,
            Ordering::Less => MachinePoolPhase::ScalingDown,
        };
    }
    if !provisioned(pool) && !nodes::refs(pool).is_empty() {
        MachinePoolPhase::Provisioned
    } else if data_secret_created(pool) && !provisioned(pool) {
        MachinePoolPhase::Provisioning
    } else {
        before.unwrap_or(MachinePoolPhase::Pending)
    }
}

/// Whether another program sets `spec.replicas`.
fn is_scaled_externally(pool: &MachinePool) -> bool {
    pool.annotations().get(annotations::REPLICAS_MANAGED_BY).is_some_and(|by| by != "false")
}

fn bootstrap_ready(pool: &MachinePool, reading: &Reading, now: Timestamp) -> NewCondition {
    let Some(reference) = &pool.spec.template.spec.bootstrap.config_ref else {
        let reason = machine_reasons::DATA_SECRET_PROVIDED;
        return NewCondition::new(types::BOOTSTRAP_CONFIG_READY, true, reason);
    };
    let mirrored = Mirrored {
        target: types::BOOTSTRAP_CONFIG_READY,
        source: types::READY,
        kind: &reference.kind,
        done: data_secret_created(pool),
        done_field: "status.initialization.dataSecretCreated",
        fallback: (reasons::READY, reasons::NOT_READY),
        deleting: is_deleting(pool),
        // Machines that come later need the data.
        survivor: Some("MachinePool"),
    };
    mirrored.condition(reading, now)
}

fn infrastructure_ready(pool: &MachinePool, reading: &Reading, now: Timestamp) -> NewCondition {
    let kind = &pool.spec.template.spec.infrastructure_ref.kind;
    external::infrastructure_ready(kind, provisioned(pool), is_deleting(pool), "MachinePool")
        .condition(reading, now)
}

/// `None` if it is unknown and was known before: a short interruption of the connection is no news.
fn available(pool: &MachinePool, observed: &Observed) -> Option<NewCondition> {
    let type_ = types::AVAILABLE;
    let not =
        |message: String| Some(NewCondition::new(type_, false, reasons::NOT_AVAILABLE).message(message));
    if is_deleting(pool) {
        return not("Deletion in progress".to_owned());
    }
    let Some(wanted) = pool.spec.replicas else { return Some(waiting_for_replicas(type_)) };
    if let Some(infrastructure) = get(pool, types::INFRASTRUCTURE_READY)
        && infrastructure.status != ConditionStatus::True
    {
        let says =
            [&infrastructure.message, &infrastructure.reason].into_iter().find(|text| !text.is_empty());
        return not(format!("* InfrastructureReady: {}", says.map_or("", String::as_str)));
    }
    let number = match (observed.has_machines(), &observed.machines, &observed.matched) {
        (true, Knowledge::Known(machines), _) => Some(of_machines(machines)),
        (false, _, Some(matched)) => Some(matched.available),
        _ => None,
    };
    match (number, &observed.nodes) {
        (Some(number), _) if number >= wanted => Some(NewCondition::new(type_, true, reasons::AVAILABLE)),
        (Some(number), _) => not(format!("{number} available replicas, at least {wanted} required")),
        (None, _) if has(pool, type_) => None,
        (None, Knowledge::Unknown(why)) => Some(unknown(type_, reasons::CONNECTION_DOWN, why)),
        (None, Knowledge::Known(_)) => Some(unknown(type_, reasons::INTERNAL_ERROR, CHECK_LOGS)),
    }
}

fn of_machines(machines: &[Machine]) -> i32 {
    whole(machines.iter().filter(|machine| is_true(*machine, types::AVAILABLE)).count())
}

/// The number of machines that there are, and that there should be.
fn numbers(pool: &MachinePool) -> Option<(i32, i32)> {
    let have = pool.status.as_ref().and_then(|status| status.replicas).unwrap_or_default();
    let wanted = pool.spec.replicas?;
    Some((have, if is_deleting(pool) { 0 } else { wanted }))
}

fn scaling_up(pool: &MachinePool) -> NewCondition {
    match numbers(pool) {
        None => waiting_for_replicas(types::SCALING_UP),
        Some((have, wanted)) if have < wanted => {
            NewCondition::new(types::SCALING_UP, true, reasons::SCALING_UP)
                .message(format!("Scaling up from {have} to {wanted} replicas"))
        }
        Some(_) => NewCondition::new(types::SCALING_UP, false, reasons::NOT_SCALING_UP),
    }
}

fn scaling_down(pool: &MachinePool) -> NewCondition {
    match numbers(pool) {
        None => waiting_for_replicas(types::SCALING_DOWN),
        Some((have, wanted)) if have > wanted => {
            NewCondition::new(types::SCALING_DOWN, true, reasons::SCALING_DOWN)
                .message(format!("Scaling down from {have} to {wanted} replicas"))
        }
        Some(_) => NewCondition::new(types::SCALING_DOWN, false, reasons::NOT_SCALING_DOWN),
    }
}

fn deleting(pool: &MachinePool, deletion: Option<&Deletion>) -> NewCondition {
    match deletion {
        Some(deletion) => {
            NewCondition::new(types::DELETING, true, deletion.reason).message(&*deletion.message)
        }
        None if is_deleting(pool) => {
            NewCondition::new(types::DELETING, true, reasons::INTERNAL_ERROR).message(CHECK_LOGS)
        }
        None => NewCondition::new(types::DELETING, false, reasons::NOT_DELETING),
    }
}
