//! Status and conditions of a HostPool, from its hosts and the progress of its machines. Pure.

use capstan_api::conditions::{NewCondition, set, types};
use capstan_api::infrastructure::{Host, HostPool, HostState};
use capstan_api::wait::{Wait, causes};
use capstan_controller::names::label_value;
use capstan_controller::owners;
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt};
use std::sync::Arc;

use super::decide::Plan;
use super::decide::machines::Progress;
use crate::host::state;
use crate::names::hostpool::{HOSTS_UP_TO_DATE, reasons};
use crate::names::{POOL_LABEL, events};
use crate::news::News;
use crate::ready::sum_up;

/// Conditions that this controller owns.
pub(super) const OWNED: [&str; 3] = [types::READY, HOSTS_UP_TO_DATE, types::PAUSED];

/// Writes the number of hosts into the status, and the wait that keeps the pool from its desired hosts.
pub(super) fn write_status(
    pool: &mut HostPool,
    hosts: &[Arc<Host>],
    plan: &Plan,
    progress: &Progress,
    now: Timestamp,
) {
    let ours: Vec<&Host> = hosts
        .iter()
        .map(AsRef::as_ref)
        .filter(|host: &&Host| owners::is_controlled_by(host.meta(), &*pool))
        .collect();
    let [replicas, available, claimed, quarantined] = count(&ours);
    let selector = format!("{POOL_LABEL}={}", label_value(&pool.name_any()));
    let hosts_condition = condition(plan, progress);
    let status = pool.status.get_or_insert_default();
    status.selector = Some(selector);
    status.replicas = Some(replicas);
    status.available_replicas = Some(available);
    status.claimed_replicas = Some(claimed);
    status.quarantined_replicas = Some(quarantined);
    set(pool, hosts_condition, now);
    sum_up(pool, &[HOSTS_UP_TO_DATE], now);
}

/// The Events of the pool: one for all created Hosts, and one for all deleted ones.
pub(super) fn news(created: &[&Host], deleted: &[Host]) -> Vec<News> {
    let names = |hosts: &mut dyn Iterator<Item = &Host>| {
        let names: Vec<String> = hosts.map(ResourceExt::name_any).collect();
        (!names.is_empty()).then(|| format!("{}: {}", names.len(), names.join(", ")))
    };
    let created = names(&mut created.iter().copied()).map(|text| News::normal(events::HOSTS_CREATED, text));
    let deleted = names(&mut deleted.iter()).map(|text| News::normal(events::HOSTS_DELETED, text));
    created.into_iter().chain(deleted).collect()
}

fn condition(plan: &Plan, progress: &Progress) -> NewCondition {
    match waits(plan, progress) {
        Some(wait) => wait.condition(HOSTS_UP_TO_DATE),
        None => NewCondition::new(HOSTS_UP_TO_DATE, true, reasons::UP_TO_DATE),
    }
}

/// The wait that keeps the pool from its desired hosts, if any.
fn waits(plan: &Plan, progress: &Progress) -> Option<Wait> {
    if progress.refused.is_some() {
        return progress.refused.clone();
    }
    if !progress.failed.is_empty() {
        return Some(Wait::new(&causes::MACHINES_FAILED, progress.failed.join("\n")));
    }
    if !progress.starting.is_empty() {
        let message = format!("booting: {}", progress.starting.join(", "));
        return Some(Wait::new(&causes::SCALING, message));
    }
    if !plan.taken.is_empty() {
        let message = format!(
            "Hosts {} exist and do not belong to this pool: delete them, or take them out of spec.static.hosts",
            plan.taken.join(", ")
        );
        return Some(Wait::new(&causes::NAME_TAKEN, message));
    }
    if plan.claimed > 0 {
        let message = format!(
            "{} hosts too many, and machines have them: they go when the machines are deleted",
            plan.claimed
        );
        return Some(Wait::new(&causes::WAITING_FOR_RELEASE, message));
    }
    (!plan.is_empty()).then(|| {
        let message = format!(
            "{} hosts are being made, {} changed, {} taken away",
            plan.create.len(),
            plan.change.len(),
            plan.delete.len()
        );
        Wait::new(&causes::SCALING, message)
    })
}

/// Number of hosts: all, claimable, claimed, and those that need a user.
pub fn count(hosts: &[&Host]) -> [i32; 4] {
    let of = |wanted: &[HostState]| {
        hosts
            .iter()
            .filter(|host| wanted.contains(&state(host, false)))
            .count()
            .try_into()
            .unwrap_or(i32::MAX)
    };
    [
        hosts.len().try_into().unwrap_or(i32::MAX),
        of(&[HostState::Available]),
        of(&[HostState::Claimed, HostState::Releasing]),
        of(&[HostState::Quarantined]),
    ]
}
