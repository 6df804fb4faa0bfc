//! Status and conditions of a Host, from its check and its claim. Pure.

use capstan_api::bootstrap::AGENT_CONNECTED;
use capstan_api::conditions::{
    Condition, ConditionStatus, NewCondition, delete, get, has, is_false, is_true, reasons as shared, set,
    types,
};
use capstan_api::infrastructure::Host;
use capstan_api::wait::{Wait, causes};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::decide::{Holder, is_reachable, is_usable, state};
use super::observe::Observed;
use crate::driver::{DriverError, Reached};
use crate::names::events;
use crate::names::host::{REACHABLE, USABLE, reasons};
use crate::news::News;

/// Conditions that this controller owns.
pub(super) const OWNED: [&str; 6] =
    [types::READY, REACHABLE, USABLE, AGENT_CONNECTED, types::DELETING, types::PAUSED];

/// Writes the observed state into the status.
pub(crate) fn write_status(host: &mut Host, seen: &Observed, now: Timestamp) {
    let Observed { found, holder, agent } = seen;
    set(host, reachable(found), now);
    if let Ok(reached) = found {
        set(host, usable(&reached.problems), now);
    }
    match agent.as_ref().and_then(|agent| agent_connected(host, agent)) {
        Some(condition) => set(host, condition, now),
        None => delete(host, AGENT_CONNECTED),
    };
    let state = state(host, matches!(holder, Holder::Leaving(_)));
    let status = host.status.get_or_insert_default();
    status.state = Some(state);
    if let Ok(reached) = found {
        status.facts = (reached.facts != Default::default()).then(|| reached.facts.clone());
        // A host always has an address: an empty list is not known to be none.
        if !reached.addresses.is_empty() {
            status.addresses.clone_from(&reached.addresses);
        }
    }
    let ready = ready(host, holder);
    set(host, ready, now);
    let deleting = deleting(host);
    set(host, deleting, now);
}

/// The Event of a host that responds again. A host that does not respond is a wait, which has its own Event.
pub(super) fn news(before: &Host, after: &Host) -> Option<News> {
    let again = is_false(before, REACHABLE) && is_true(after, REACHABLE);
    again.then(|| News::normal(events::REACHABLE, "The host answers again"))
}

/// Copies the condition of the Machine. A host whose agent was always connected does not have it.
fn agent_connected(host: &Host, agent: &Condition) -> Option<NewCondition> {
    let is_missed = agent.status == ConditionStatus::False || has(host, AGENT_CONNECTED);
    is_missed.then(|| NewCondition {
        last_transition_time: Some(agent.last_transition_time.clone()),
        ..NewCondition::new(AGENT_CONNECTED, agent.status, &agent.reason).message(&agent.message)
    })
}

fn reachable(found: &Result<Reached, DriverError>) -> NewCondition {
    match found {
        Ok(_) => NewCondition::new(REACHABLE, true, reasons::REACHABLE),
        Err(error) => Wait::new(error.cause(), error.to_string()).condition(REACHABLE),
    }
}

fn usable(problems: &[String]) -> NewCondition {
    match problems.is_empty() {
        true => NewCondition::new(USABLE, true, reasons::USABLE),
        false => Wait::new(&causes::NOT_USABLE, problems.join("\n")).condition(USABLE),
    }
}

fn ready(host: &Host, holder: &Holder) -> NewCondition {
    match waits(host, holder) {
        Some(wait) => wait.condition(types::READY),
        None => NewCondition::new(types::READY, true, shared::READY),
    }
}

/// The wait that keeps the host from being used, if any.
fn waits(host: &Host, holder: &Holder) -> Option<Wait> {
    if let Some(quarantine) = &host.spec.quarantine {
        let why = quarantine.message.as_deref().unwrap_or(&quarantine.reason);
        let message = format!("{why}\nPut the host right, then remove spec.quarantine");
        return Some(Wait::new(&causes::QUARANTINED, message));
    }
    if let (Holder::Missing, Some(claim)) = (holder, &host.spec.claim) {
        let message = format!(
            "HostMachine {}, which has this host, does not exist: if it will not come back, clean the host, then \
             remove spec.claim",
            claim.machine_name
        );
        return Some(Wait::new(&causes::CLAIM_ORPHANED, message));
    }
    if let (Holder::Leaving(progress), Some(claim)) = (holder, &host.spec.claim) {
        let progress = progress.as_deref().unwrap_or("the host is reset next");
        let message =
            format!("HostMachine {}, which has this host, is being deleted: {progress}", claim.machine_name);
        return Some(Wait::new(&causes::RELEASING, message));
    }
    let unwell = match is_reachable(host) {
        true => get(host, USABLE).filter(|_| !is_usable(host)),
        false => get(host, REACHABLE),
    };
    unwell.and_then(Wait::read)
}

fn deleting(host: &Host) -> NewCondition {
    let new = |so: bool, reason: &str| NewCondition::new(types::DELETING, so, reason);
    match (&host.metadata.deletion_timestamp, &host.spec.claim) {
        (None, _) => new(false, shared::NOT_DELETING),
        (Some(_), Some(claim)) => {
            let message = format!(
                "HostMachine {} of Cluster {} has Host {}: it goes once that machine is deleted",
                claim.machine_name,
                claim.cluster_name,
                host.name_any()
            );
            Wait::new(&causes::WAITING_FOR_RELEASE, message).condition(types::DELETING)
        }
        (Some(_), None) => new(true, shared::DELETING),
    }
}
