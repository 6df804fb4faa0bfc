//! The next step for a Host, its state, and when it is checked again. Pure.

use capstan_api::conditions::{ConditionStatus, get, is_false, is_true, types};
use capstan_api::infrastructure::{Host, HostMachine, HostState};
use jiff::Timestamp;
use std::time::Duration;

use super::observe::Observed;
use crate::driver::HostKind;
use crate::names::host::{REACHABLE, USABLE};
use crate::retry::after_silence;

/// Interval of checks of a host that responds and is usable.
const WHEN_WELL: Duration = Duration::from_secs(300);
/// First pause before a host that does not respond, or is not usable, is checked again.
const WHEN_LOST: Duration = Duration::from_secs(15);

/// The next step for a Host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostStep {
    /// Check the host, and write the result into its status.
    Look,
    /// The Host is being deleted and not claimed: remove the finalizer.
    Release,
}

/// The next step. A Host that a machine has claimed is not released, even if it is being deleted.
pub(super) fn decide(host: &Host) -> HostStep {
    match host.metadata.deletion_timestamp.is_some() && host.spec.claim.is_none() {
        true => HostStep::Release,
        false => HostStep::Look,
    }
}

/// Whether the host responds and is usable.
pub(super) fn is_well(seen: &Observed) -> bool {
    seen.found.as_ref().is_ok_and(|reached| reached.problems.is_empty())
}

/// Pause until the next check of a host, from the conditions in its status.
pub(super) fn again(host: &Host, is_well: bool, now: Timestamp) -> Duration {
    if is_well {
        return WHEN_WELL;
    }
    let silent = get(host, REACHABLE).filter(|condition| condition.status == ConditionStatus::False);
    after_silence(WHEN_LOST, silent.map(|condition| condition.last_transition_time.0), now)
}

/// Whether the host is reachable, as far as is known. A real host must have responded; a simulated one is reachable
/// unless its status says otherwise.
pub fn is_reachable(host: &Host) -> bool {
    match HostKind::of(host) {
        HostKind::Simulated => !is_false(host, REACHABLE),
        HostKind::Ssh | HostKind::Registered => is_true(host, REACHABLE),
    }
}

/// Whether the reachability is known. A real host that was never checked is neither reachable nor unreachable.
pub fn is_reachability_known(host: &Host) -> bool {
    HostKind::of(host) == HostKind::Simulated || is_true(host, REACHABLE) || is_false(host, REACHABLE)
}

/// Whether no known problem prevents a machine from working on the host.
pub fn is_usable(host: &Host) -> bool {
    !is_false(host, USABLE)
}

/// The HostMachine that the claim of a host names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It exists, or there is no claim.
    Present,
    /// It is being deleted, with the message of its `Deleting` condition, if there is one.
    Leaving(Option<String>),
    /// It does not exist, or has another claim ID.
    Missing,
}

impl Holder {
    /// The holder of a host, given the HostMachine with the name in the host's claim.
    pub(super) fn of(host: &Host, machine: Option<&HostMachine>) -> Self {
        let Some(claim) = &host.spec.claim else { return Self::Present };
        match machine.filter(|machine| machine.spec.claim_id.as_ref() == Some(&claim.id)) {
            None => Self::Missing,
            Some(machine) if machine.metadata.deletion_timestamp.is_some() => {
                let deleting =
                    get(machine, types::DELETING).filter(|deleting| deleting.status == ConditionStatus::True);
                Self::Leaving(deleting.map(|deleting| deleting.message.clone()))
            }
            Some(_) => Self::Present,
        }
    }
}

/// The state of the host. `releasing`: the machine that claims it is being deleted.
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
