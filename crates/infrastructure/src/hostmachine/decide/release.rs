//! Releases a host: reset and verified, or quarantined with the reason. Pure.

use capstan_api::infrastructure::{Host, HostMachine, HostQuarantine};
use capstan_api::wait::{Wait, causes};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::driver::{DriverError, ResetState};

/// Number of leftovers that a message lists.
const MOST_LEFT: usize = 20;

/// What to do with a host during a release.
#[derive(Clone, Debug, PartialEq)]
pub enum Release {
    /// Wait.
    Wait(Wait),
    /// Write this patch into the spec of the host, in one request.
    Write(Value),
}

/// The hosts that carry the machine's claim. All of them are released.
pub(in crate::hostmachine) fn claimed<'h>(machine: &HostMachine, hosts: &'h [Arc<Host>]) -> Vec<&'h Host> {
    let Some(id) = &machine.spec.claim_id else { return Vec::new() };
    let has_claim = |host: &&Host| host.spec.claim.as_ref().is_some_and(|claim| claim.id == *id);
    hosts.iter().map(AsRef::as_ref).filter(has_claim).collect()
}

/// The next step of a release, from the response of the driver. `since` is when the deletion of the machine began.
pub(in crate::hostmachine) fn decide(
    host: &Host,
    state: &Result<ResetState, DriverError>,
    since: Option<&Time>,
    now: Timestamp,
) -> Release {
    let name = host.name_any();
    let since = since.map(|time| format!(" since {}", time.0)).unwrap_or_default();
    match state {
        Ok(ResetState::Running) => {
            let message = format!("Host {name} is being reset{since}");
            Release::Wait(Wait::new(&causes::RESETTING_HOST, message))
        }
        Ok(ResetState::Clean) => Release::Write(json!({"claim": null})),
        Ok(ResetState::Dirty { left }) => {
            let more = left.len().saturating_sub(MOST_LEFT);
            let mut list = left.iter().take(MOST_LEFT).cloned().collect::<Vec<_>>().join(", ");
            if more > 0 {
                list.push_str(&format!(" and {more} more"));
            }
            let quarantine = HostQuarantine {
                reason: causes::LEFT_DIRTY.reason.to_owned(),
                message: Some(format!("left on the host after its machine was deleted: {list}")),
                since: Some(Time(now)),
            };
            Release::Write(json!({"claim": null, "quarantine": quarantine}))
        }
        Err(error) => {
            let message = format!(
                "cannot reset Host {name}, tried{since}: {error}\nThe host stays claimed until it was reset. If it will \
                 never come back: capstan host abandon {name}"
            );
            Release::Wait(Wait::new(&causes::HOST_UNREACHABLE, message))
        }
    }
}
