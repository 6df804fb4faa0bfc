//! What a reconcile of a Host reads: the response of the host, and the HostMachine that its claim names. No writes.

use capstan_api::bootstrap::AGENT_CONNECTED;
use capstan_api::conditions::{Condition, get};
use capstan_api::core::Machine;
use capstan_api::infrastructure::{Host, HostMachine};
use capstan_controller::{Result, owners};
use kube::ResourceExt as _;

use super::decide::Holder;
use crate::context::Infrastructure;
use crate::driver::{DriverError, Reached};

const GROUP: &str = "cluster.x-k8s.io";

/// The observed state of a Host.
pub(crate) struct Observed {
    /// The result of the check, or why the host could not be checked.
    pub(crate) found: std::result::Result<Reached, DriverError>,
    /// The HostMachine that has claimed it.
    pub(crate) holder: Holder,
    /// The condition `AgentConnected` of its Machine; `None` without a Machine or without that condition.
    pub(crate) agent: Option<Condition>,
}

/// Checks the host, and reads its HostMachine.
pub(super) async fn observe(infrastructure: &Infrastructure, host: &Host) -> Result<Observed> {
    let found = match infrastructure.drivers.of(host) {
        Ok(driver) => driver.facts(host).await,
        Err(error) => Err(error),
    };
    let namespace = host.namespace().unwrap_or_default();
    let machine = match &host.spec.claim {
        Some(claim) => {
            let machines = infrastructure.caches.of::<HostMachine>();
            machines.get(&namespace, &claim.machine_name).await?
        }
        None => None,
    };
    let owner = machine.as_ref().and_then(|machine| owners::of_kind(&machine.metadata, "Machine", GROUP));
    let agent = match owner {
        Some(owner) => {
            let owner = infrastructure.caches.of::<Machine>().get(&namespace, &owner.name).await?;
            owner.and_then(|owner| get(owner.as_ref(), AGENT_CONNECTED).cloned())
        }
        None => None,
    };
    Ok(Observed { found, holder: Holder::of(host, machine.as_deref()), agent })
}
