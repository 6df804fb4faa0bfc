//! HostRegistration: accepts machines that dial out, records the Host that approves each of them, and gives them
//! credentials.
//!
//! A machine creates its registration with a join token. This controller verifies the proof of the token, its expiry and its
//! number of uses. It creates the Host if the rule of the token says so; otherwise it waits for a person. An approved
//! machine gets a credential of its own, and the driver of its Host instructs it.
//!
//! Reads: the HostRegistrations and Hosts of a namespace, and the Secrets of join tokens. Writes: `spec.host`,
//! `spec.credential`, the finalizer, the owner and the conditions of the HostRegistration; the ServiceAccount, Role and
//! RoleBinding of its machine; Hosts that a rule approves; and Events. It deletes registrations that were refused or not
//! approved in time. The registration of a Host goes with the Host, which owns it. Until then it stays, also if it is deleted:
//! without it, the machine stops dialing out, and could not be reset.
//!
//! Phases: the end of a registration that is deleted and not approved; pause, if a Host approves it; then finalizer, step with
//! status, and the [`credential`] of an approved machine.

mod act;
mod credential;
mod decide;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

pub use decide::{APPROVAL_TIME, approves, host};

use capstan_api::infrastructure::HostRegistration;
use capstan_controller::{Next, Reconciler, Result, finalizers, pause, run};
use kube::ResourceExt as _;
use std::sync::Arc;

use crate::context::Infrastructure;
use crate::names::hostregistration::FINALIZER;
use decide::RegistrationStep;

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
        let is_deleted = registration.metadata.deletion_timestamp.is_some();
        if is_deleted && !act::is_approved(infrastructure, &registration).await? {
            return act::release(infrastructure, &registration).await.map(|()| Next::Changed);
        }
        let seen = observe::observe(infrastructure, &registration).await?;
        let observed = seen.observed(&registration);
        // The holder of a join token writes the annotations of its registrations. A pause must not keep them from being refused.
        if observed.hosts.iter().any(|host| approves(host, &registration))
            && !pause::allows(&api, &*registration, None, infrastructure.now()).await?
        {
            return Ok(Next::Changed);
        }
        let decision = decide::decide(&observed, infrastructure.now());
        if matches!(decision.step, RegistrationStep::Record(_))
            && finalizers::ensure(&api, &*registration, FINALIZER).await?
        {
            return Ok(Next::Changed);
        }
        act::take(infrastructure, &registration, &decision.step).await?;
        // The write of the host wakes it again: a credential is for a registration that names its Host.
        if let RegistrationStep::Record(host) = &decision.step
            && registration.spec.host.as_ref() == Some(&host.name_any())
        {
            return match credential::valid_for(&registration, infrastructure.now()) {
                Some(wait) => Ok(Next::After(wait)),
                None => act::give_credential(infrastructure, &registration).await.map(|()| Next::Changed),
            };
        }
        Ok(decision.again.map_or(Next::Changed, Next::After))
    }
}
