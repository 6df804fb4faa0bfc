//! Host: checks it, computes its state, and keeps the object while a machine has claimed it.
//!
//! Reads: the Host, the HostMachine that its claim names and the Machine of that, its HostPool, the HostRegistration of a
//! machine that dials out, and the host itself through its driver. Writes: finalizer and status of the Host, and Events. For a Host that is deleted it removes the
//! machine that its pool created.
//!
//! Phases: pause, finalizer; then release, for a Host that is being deleted and not claimed, or [`look`], which checks
//! the host, writes its status and publishes Events.

mod act;
mod decide;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

pub use decide::{Holder, is_reachability_known, is_reachable, is_usable, state};
#[cfg(test)]
pub(crate) use observe::Observed;
pub(crate) use status::write_status;

use capstan_api::infrastructure::Host;
use capstan_controller::{Next, Reconciler, Result, finalizers, pause, run};
use kube::ResourceExt as _;
use std::sync::Arc;

use crate::context::Infrastructure;
use crate::names::host::FINALIZER;
use decide::HostStep;

struct Hosts(Infrastructure);

/// Runs the controller until `stop` completes.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = triggers::all(&infrastructure);
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    run::run(Hosts(infrastructure), cache, scope, also, stop).await;
}

impl Reconciler for Hosts {
    type Object = Host;

    fn name(&self) -> &'static str {
        "host"
    }

    fn summaries(&self) -> &'static [&'static str] {
        &["facts", "state"]
    }

    async fn reconcile(&self, host: Arc<Host>) -> Result<Next> {
        let api = self.0.api::<Host>(&host.namespace().unwrap_or_default());
        // The pause first: a Host that lives on at another plane must not be held here, and nothing that it stands for
        // may go with this copy of it.
        if !pause::allows(&api, &*host, None, self.0.now()).await?
            || finalizers::ensure(&api, &*host, FINALIZER).await?
        {
            return Ok(Next::Changed);
        }
        match decide::decide(&host) {
            HostStep::Release => {
                act::release(&self.0, &host).await?;
                Ok(Next::Changed)
            }
            HostStep::Look => {
                let looked = look(&self.0, &host).await?;
                Ok(Next::After(decide::again(&looked.host, looked.is_well, self.0.now())))
            }
        }
    }
}

/// A host after it was asked.
pub(crate) struct Looked {
    /// It has answered and can be used.
    pub(crate) is_well: bool,
    /// The object, with the status that was written.
    pub(crate) host: Host,
}

/// Asks a host who it is, and writes its status. A HostMachine does the same right before it claims a host and after it
/// has started one.
pub(crate) async fn look(infrastructure: &Infrastructure, host: &Host) -> Result<Looked> {
    let seen = observe::observe(infrastructure, host).await?;
    let mut updated = host.clone();
    write_status(&mut updated, &seen, infrastructure.now());
    pause::lifted(&mut updated, infrastructure.now());
    act::write(infrastructure, host, &updated).await?;
    infrastructure.report(host, status::news(host, &updated)).await;
    Ok(Looked { is_well: decide::is_well(&seen), host: updated })
}
