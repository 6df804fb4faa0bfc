//! Status and conditions of a Host, from what it answered and which machine has it. Pure.

use capstan_api::conditions::{ConditionStatus, NewCondition, get, reasons as shared, set, types};
use capstan_api::infrastructure::Host;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::decide::{Holder, is_reachable, is_usable, state};
use super::observe::Observed;
use crate::driver::{DriverError, Reached};
use crate::names::events;
use crate::names::host::{REACHABLE, USABLE, reasons};
use crate::news::{News, first_line};

/// Conditions that this controller owns.
pub(super) const OWNED: [&str; 5] = [types::READY, REACHABLE, USABLE, types::DELETING, types::PAUSED];

/// Writes into status what was found.
pub(crate) fn tell(host: &mut Host, seen: &Observed, now: Timestamp) {
    let Observed { found, holder } = seen;
    set(host, reachable(found), now);
    if let Ok(reached) = found {
        set(host, usable(&reached.problems), now);
    }
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

/// What has happened to the host between two looks: it does not answer any more, for another reason, or again.
pub(super) fn news(before: &Host, after: &Host) -> Option<News> {
    let was = get(before, REACHABLE);
    let is = get(after, REACHABLE)?;
    match (was.map(|was| &was.status), &is.status) {
        (Some(ConditionStatus::False), ConditionStatus::True) => {
            Some(News::normal(events::REACHABLE, "The host answers again"))
        }
        (_, ConditionStatus::False) if was.is_none_or(|was| was.reason != is.reason) => {
            let message = format!("{}: {}", is.reason, first_line(&is.message));
            Some(News::warning(events::UNREACHABLE, message))
        }
        _ => None,
    }
}

fn reachable(found: &Result<Reached, DriverError>) -> NewCondition {
    let new = |so: bool, reason: &str| NewCondition::new(REACHABLE, so, reason);
    match found {
        Ok(_) => new(true, reasons::REACHABLE),
        Err(DriverError::NotSupported(why)) => new(false, reasons::NOT_SUPPORTED).message(why),
        Err(DriverError::Unreachable(why)) => new(false, reasons::UNREACHABLE).message(why),
        Err(DriverError::Misconfigured { reason, message }) => new(false, reason).message(message),
    }
}

fn usable(problems: &[String]) -> NewCondition {
    match problems.is_empty() {
        true => NewCondition::new(USABLE, true, reasons::USABLE),
        false => NewCondition::new(USABLE, false, reasons::NOT_USABLE).message(problems.join("\n")),
    }
}

fn ready(host: &Host, holder: &Holder) -> NewCondition {
    let new = |so: bool, reason: &str| NewCondition::new(types::READY, so, reason);
    if let Some(quarantine) = &host.spec.quarantine {
        let why = quarantine.message.as_deref().unwrap_or(&quarantine.reason);
        return new(false, reasons::QUARANTINED)
            .message(format!("{why}\nPut the host right, then remove spec.quarantine"));
    }
    if let (Holder::Missing, Some(claim)) = (holder, &host.spec.claim) {
        return new(false, reasons::CLAIM_ORPHANED).message(format!(
            "HostMachine {}, which has this host, does not exist: if it will not come back, clean the host, then \
             remove spec.claim",
            claim.machine_name
        ));
    }
    if let (Holder::Leaving(told), Some(claim)) = (holder, &host.spec.claim) {
        let told = told.as_deref().unwrap_or("the host is reset next");
        return new(false, reasons::RELEASING).message(format!(
            "HostMachine {}, which has this host, is being deleted: {told}",
            claim.machine_name
        ));
    }
    let unwell = match is_reachable(host) {
        true => get(host, USABLE).filter(|_| !is_usable(host)),
        false => get(host, REACHABLE),
    };
    match unwell {
        Some(condition) => new(false, &condition.reason).message(condition.message.clone()),
        None => new(true, shared::READY),
    }
}

fn deleting(host: &Host) -> NewCondition {
    let new = |so: bool, reason: &str| NewCondition::new(types::DELETING, so, reason);
    match (&host.metadata.deletion_timestamp, &host.spec.claim) {
        (None, _) => new(false, shared::NOT_DELETING),
        (Some(_), Some(claim)) => new(true, reasons::WAITING_FOR_RELEASE).message(format!(
            "HostMachine {} of Cluster {} has Host {}: it goes once that machine is deleted",
            claim.machine_name,
            claim.cluster_name,
            host.name_any()
        )),
        (Some(_), None) => new(true, shared::DELETING),
    }
}
