//! What a host's state is, and what is told of it. Pure.

use capstan_api::conditions::{NewCondition, get, is_false, is_true, reasons as shared, set, types};
use capstan_api::infrastructure::{Host, HostState};
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::driver::{DriverError, HostKind, Reached};
use crate::names::host::{REACHABLE, USABLE, reasons};

/// Whether the host can be reached, as far as is known. A real host must have answered before anybody counts on it; one
/// that is simulated answers unless it says that it does not.
pub fn is_reachable(host: &Host) -> bool {
    match HostKind::of(host) {
        HostKind::Simulated => !is_false(host, REACHABLE),
        HostKind::Ssh => is_true(host, REACHABLE),
    }
}

/// Whether it is known if the host can be reached. A real host that was never asked is neither reachable nor unreachable.
pub fn is_reachability_known(host: &Host) -> bool {
    HostKind::of(host) == HostKind::Simulated || is_true(host, REACHABLE) || is_false(host, REACHABLE)
}

/// Whether a machine would work on the host, as far as is known.
pub fn is_usable(host: &Host) -> bool {
    !is_false(host, USABLE)
}

/// What is known of the machine that a host's claim names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It is there, or there is no claim.
    Present,
    /// It is being deleted. What it says of that, once it does.
    Leaving(Option<String>),
    /// It does not exist, or has another claim by now.
    Missing,
}

/// Where the host is in its life. `releasing`: the machine that has it is being deleted.
pub fn state(host: &Host, releasing: bool) -> HostState {
    if host.spec.quarantine.is_some() {
        HostState::Quarantined
    } else if host.spec.claim.is_some() && releasing {
        HostState::Releasing
    } else if host.spec.claim.is_some() {
        HostState::Claimed
    } else if !is_reachable(host) {
        HostState::Unreachable
    } else if !is_usable(host) {
        HostState::Unusable
    } else if host.spec.unschedulable == Some(true) {
        HostState::Unschedulable
    } else {
        HostState::Available
    }
}

/// Writes into status what was found.
pub fn tell(host: &mut Host, found: &Result<Reached, DriverError>, holder: &Holder, now: Timestamp) {
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
