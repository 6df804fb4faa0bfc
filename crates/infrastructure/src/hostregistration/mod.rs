//! HostRegistration: accepts machines that dial out, and records the Host that approves each of them.
//!
//! A machine creates its registration with a join token. This controller verifies the proof of the token, its expiry and its
//! number of uses. It creates the Host if the rule of the token says so; otherwise it waits for a person. The bootstrap
//! provider then gives the machine its credential, and the driver of the Host its instructions.
//!
//! Reads: the HostRegistrations and Hosts of a namespace, and the Secrets of join tokens. Writes: `spec.host`, the owner and the
//! conditions of the HostRegistration; Hosts that a rule approves; and Events. It deletes registrations that were refused or
//! not approved in time. The registration of a Host goes with the Host, which owns it.
//!
//! Phases: pause; then step, status.

mod act;
mod decide;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

pub use decide::{APPROVAL_TIME, host};

use capstan_api::infrastructure::HostRegistration;
use capstan_controller::{Next, Reconciler, Result, pause, run};
use kube::ResourceExt as _;
use std::sync::Arc;

use crate::context::Infrastructure;

struct Registrations(Infrastructure);

/// Runs the controller until `stop` completes.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = triggers::all(&infrastructure);
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    run::run(Registrations(infrastructure), cache, scope, also, stop).await;
}

impl Reconciler for Registrations {
    type Object = HostRegistration;

    fn name(&self) -> &'static str {
        "hostregistration"
    }

    async fn reconcile(&self, registration: Arc<HostRegistration>) -> Result<Next> {
        let Self(infrastructure) = self;
        let api = infrastructure.api::<HostRegistration>(&registration.namespace().unwrap_or_default());
        if registration.metadata.deletion_timestamp.is_some()
            || !pause::allows(&api, &*registration, None, infrastructure.now()).await?
        {
            return Ok(Next::Changed);
        }
        let seen = observe::observe(infrastructure, &registration).await?;
        let decision = decide::decide(&seen.observed(&registration), infrastructure.now());
        act::take(infrastructure, &registration, &decision.step).await?;
        Ok(decision.again.map_or(Next::Changed, Next::After))
    }
}
