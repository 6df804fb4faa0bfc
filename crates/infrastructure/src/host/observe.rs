//! What a Host is looked at with: its own answer, and the machine that its claim names. Reads only.

use capstan_api::infrastructure::{Host, HostMachine};
use capstan_controller::Result;
use kube::ResourceExt as _;

use super::decide::Holder;
use crate::context::Infrastructure;
use crate::driver::{DriverError, Reached};

/// What was found out about a Host.
pub(crate) struct Observed {
    /// What it says when it is asked who it is, or why it says nothing.
    pub(crate) found: std::result::Result<Reached, DriverError>,
    /// The machine that has it.
    pub(crate) holder: Holder,
}

/// Asks the host, and looks its machine up.
pub(super) async fn observe(infrastructure: &Infrastructure, host: &Host) -> Result<Observed> {
    let found = match infrastructure.drivers.of(host) {
        Ok(driver) => driver.facts(host).await,
        Err(error) => Err(error),
    };
    let machine = match &host.spec.claim {
        Some(claim) => {
            let machines = infrastructure.caches.of::<HostMachine>();
            machines.get(&host.namespace().unwrap_or_default(), &claim.machine_name).await?
        }
        None => None,
    };
    Ok(Observed { found, holder: Holder::of(host, machine.as_deref()) })
}
