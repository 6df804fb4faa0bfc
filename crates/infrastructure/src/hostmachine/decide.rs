//! The next step for a HostMachine. Pure: the step is carried out, and then the next one is decided.

pub(super) mod claim;
pub(super) mod release;

use capstan_api::conditions::get;
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, ProviderId};
use capstan_api::wait::{Cause, Wait, causes};
use capstan_controller::Next;
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::{BootstrapState, DriverError};
use crate::names::hostmachine::BOOTSTRAP_EXECUTED;
use crate::selector::HostSelectors;
use claim::{Obstacle, Wanted, choose, complaint};

/// Resync of a machine that waits, in case an event was missed.
pub(super) const WAITING: Duration = Duration::from_secs(30);
/// Resync of a host that executes bootstrap data. Its end is an event, so this is for missed events.
pub(super) const WORKING: Duration = Duration::from_secs(2);
/// First retries with a host that did not respond.
pub(super) const SILENT: Duration = Duration::from_secs(10);
/// Pause before the first check whether the agent must be handed over to this management plane.
const SOONEST_LOOK: Duration = Duration::from_secs(5);
/// Longest pause between two such checks. They continue, because the previous management plane may be down for a long
/// time.
const SELDOM_LOOK: Duration = Duration::from_secs(900);

/// Inputs of a decision about a HostMachine.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The HostMachine.
    pub machine: &'a HostMachine,
    /// The Machine that owns it.
    pub owner: Option<&'a Machine>,
    /// The Cluster of both.
    pub cluster: Option<&'a Cluster>,
    /// The HostCluster, if the Cluster has one.
    pub host_cluster: Option<&'a HostCluster>,
    /// Candidate hosts: all of the namespace, or only the claimed one.
    pub hosts: &'a [Arc<Host>],
}

/// The next step for a HostMachine.
#[derive(Clone, Debug, PartialEq)]
pub enum HostMachineStep<'a> {
    /// Another controller or the user must act.
    Wait(Wait),
    /// Write a new random `spec.claimID`.
    ChooseClaimId,
    /// Claim this host by compare and swap.
    Claim(&'a Host),
    /// Release this host, which was claimed in addition to the recorded one. It was not bootstrapped.
    GiveBack(&'a Host),
    /// Write `spec.hostName` and `spec.providerID`.
    Record(&'a Host),
    /// Ensure that the host executes the bootstrap data in this Secret.
    Start(&'a Host, String),
}

impl HostMachineStep<'_> {
    fn wait(cause: &Cause, message: impl Into<String>) -> Self {
        HostMachineStep::Wait(Wait::new(cause, message))
    }
}

/// The provider ID of a machine. It contains the claim ID, so a host that is claimed again has another one.
pub fn provider_id(namespace: &str, host: &str, claim_id: &str) -> String {
    ProviderId { namespace, host, claim: claim_id }.to_string()
}

/// The next step for a HostMachine that is not being deleted.
pub fn decide<'a>(seen: Observed<'a>) -> HostMachineStep<'a> {
    let (owner, cluster) = match (seen.owner, seen.cluster) {
        (Some(owner), Some(cluster)) => (owner, cluster),
        (None, _) => {
            return HostMachineStep::wait(
                &causes::WAITING_FOR_MACHINE_OWNER,
                "waiting for a Machine whose spec.infrastructureRef names this HostMachine",
            );
        }
        (Some(owner), None) => {
            let name = &owner.spec.cluster_name;
            return HostMachineStep::wait(
                &causes::WAITING_FOR_MACHINE_OWNER,
                format!("waiting for Cluster {name}, which does not exist"),
            );
        }
    };
    let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    if initialization.and_then(|init| init.infrastructure_provisioned) != Some(true) {
        return HostMachineStep::wait(
            &causes::WAITING_FOR_CLUSTER_INFRASTRUCTURE,
            format!("waiting for the infrastructure of Cluster {}", cluster.name_any()),
        );
    }
    let Some(secret) = owner.spec.bootstrap.data_secret_name.as_ref().filter(|name| !name.is_empty()) else {
        return HostMachineStep::wait(
            &causes::WAITING_FOR_BOOTSTRAP_DATA,
            format!("waiting for the bootstrap data of Machine {}", owner.name_any()),
        );
    };
    let Some(claim_id) = &seen.machine.spec.claim_id else { return HostMachineStep::ChooseClaimId };
    let has_claim = |host: &&Host| host.spec.claim.as_ref().is_some_and(|claim| claim.id == *claim_id);
    let mut mine = seen.hosts.iter().map(AsRef::as_ref).filter(has_claim);
    match &seen.machine.spec.host_name {
        Some(name) => match mine.find(|host| host.name_any() != *name) {
            Some(extra) => HostMachineStep::GiveBack(extra),
            None => named(seen, name, claim_id, secret),
        },
        None => match mine.min_by_key(|host| host.name_any()) {
            Some(host) => HostMachineStep::Record(host),
            None => any(seen, owner, claim_id),
        },
    }
}

/// The host is named: the user has set its name, or it is claimed already.
fn named<'a>(seen: Observed<'a>, name: &str, claim_id: &str, secret: &str) -> HostMachineStep<'a> {
    let is_started = seen.machine.spec.provider_id.is_some();
    let host = seen.hosts.iter().map(AsRef::as_ref).find(|host: &&Host| host.name_any() == name);
    match host {
        Some(host) if host.spec.claim.as_ref().is_some_and(|claim| claim.id == claim_id) => {
            match is_started {
                true => HostMachineStep::Start(host, secret.to_owned()),
                false => HostMachineStep::Record(host),
            }
        }
        _ if is_started => HostMachineStep::wait(
            &causes::HOST_LOST,
            match host {
                Some(_) => format!(
                    "Host {name} no longer carries the claim of this machine in spec.claim: delete the Machine"
                ),
                None => format!("Host {name} does not exist any more: delete the Machine"),
            },
        ),
        None => HostMachineStep::wait(
            &causes::HOST_NOT_AVAILABLE,
            format!("there is no Host {name}, which spec.hostName asks for: add it"),
        ),
        Some(host) => match Obstacle::of(host) {
            None => HostMachineStep::Claim(host),
            Some(obstacle) => {
                let complaint = complaint(host).map(|text| format!("\n{text}")).unwrap_or_default();
                HostMachineStep::wait(
                    &causes::HOST_NOT_AVAILABLE,
                    format!("Host {name}, which spec.hostName asks for, is {}{complaint}", obstacle.words()),
                )
            }
        },
    }
}

/// Any matching host.
fn any<'a>(seen: Observed<'a>, owner: &Machine, claim_id: &str) -> HostMachineStep<'a> {
    let of_cluster = seen.host_cluster.and_then(|cluster| cluster.spec.host_selector.as_ref());
    let selectors = HostSelectors::default()
        .and("spec.hostSelector", seen.machine.spec.host_selector.as_ref())
        .and_then(|selectors| selectors.and("spec.hostSelector of the HostCluster", of_cluster));
    let selectors = match selectors {
        Ok(selectors) => selectors,
        Err(error) => return HostMachineStep::wait(&causes::INVALID_HOST_SELECTOR, error.to_string()),
    };
    let failure_domain = owner.spec.failure_domain.as_deref();
    match choose(&Wanted { claim_id, selectors: &selectors, failure_domain }, seen.hosts) {
        Ok(host) => HostMachineStep::Claim(host),
        Err(message) => HostMachineStep::wait(&causes::NO_HOST_AVAILABLE, message),
    }
}

/// When to check a host again that was started with bootstrap data.
pub(super) fn after_start(state: &Result<BootstrapState, DriverError>) -> Next {
    match state {
        Ok(BootstrapState::Done | BootstrapState::Failed(_)) => Next::Changed,
        Ok(BootstrapState::Running) => Next::After(WORKING),
        Err(_) => Next::After(SILENT),
    }
}

/// When to check again whether the agent on a machine must be handed over to this plane. `was_handed_over`: the
/// hand-over was just repeated. `running`: how long this process has been running.
///
/// No event triggers this check, because the controller has no right to watch Secrets. A hand-over is usually needed
/// soon after a machine was moved to this plane, or after the address of the plane has changed, which restarts the
/// process. So the checks become less frequent with time.
pub(super) fn after_follow(
    machine: &HostMachine,
    was_handed_over: bool,
    running: Duration,
    now: Timestamp,
) -> Duration {
    if was_handed_over {
        // The hand-over is repeated until the agent has enrolled: the agent may have ended before it stored anything.
        return SILENT;
    }
    let since = get(machine, BOOTSTRAP_EXECUTED).map(|condition| condition.last_transition_time.0);
    let since =
        since.and_then(|since| Duration::try_from(now.duration_since(since)).ok()).unwrap_or_default();
    since.min(running).clamp(SOONEST_LOOK, SELDOM_LOOK)
}
