//! Writes of the HostRegistration controller. Each is idempotent.

use capstan_api::infrastructure::{Host, HostRegistration};
use capstan_controller::error::{Doing as _, Error};
use capstan_controller::patch::Patcher;
use capstan_controller::{Grounds, Result, destroy, owners, pause};
use kube::ResourceExt as _;
use kube::api::{ListParams, PostParams};

use super::decide::{self, RegistrationStep};
use super::status;
use crate::context::Infrastructure;
use crate::names::events;
use crate::news::News;

/// Carries out one step, and writes the status.
pub(super) async fn take(
    infrastructure: &Infrastructure,
    registration: &HostRegistration,
    step: &RegistrationStep,
) -> Result<()> {
    let namespace = registration.namespace().unwrap_or_default();
    let api = infrastructure.api::<HostRegistration>(&namespace);
    let mut updated = registration.clone();
    match step {
        RegistrationStep::Create(host) => {
            return create(infrastructure, &namespace, registration, host).await;
        }
        RegistrationStep::Delete(why) => {
            return destroy::delete(&api, &registration.metadata, &Grounds::asked(*why)).await;
        }
        RegistrationStep::Record(host) => {
            updated.spec.host = Some(host.name_any());
            // So that it goes with the Host.
            if let Some(owner) = owners::plain(&**host) {
                owners::ensure(&mut updated.metadata, &owner);
            }
            status::approve(&mut updated, infrastructure.now());
        }
        RegistrationStep::Rest(wait) => status::wait(&mut updated, wait, infrastructure.now()),
    }
    pause::lifted(&mut updated, infrastructure.now());
    Patcher::new(api, registration).finish(&updated, &status::OWNED).await?;
    let news = (registration.spec.host != updated.spec.host).then(|| {
        News::normal(
            events::APPROVED,
            format!("Host {} has the machine", updated.spec.host.unwrap_or_default()),
        )
    });
    infrastructure.report(registration, news).await;
    Ok(())
}

/// Creates the Host that approves a registration. Its event triggers the next step.
async fn create(
    infrastructure: &Infrastructure,
    namespace: &str,
    registration: &HostRegistration,
    host: &Host,
) -> Result<()> {
    let api = infrastructure.api::<Host>(namespace);
    // What is in memory may be a moment old, and a person may have made a Host for it.
    let hosts =
        api.list(&ListParams::default()).await.doing(|| format!("cannot list Hosts in {namespace}"))?;
    let doing = || format!("cannot make Host {namespace}/{}", host.name_any());
    if hosts.items.iter().any(|host| decide::names(host, &registration.name_any())) {
        return Err(Error::Conflict { doing: doing() });
    }
    match api.create(&PostParams::default(), host).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Err(Error::Conflict { doing: doing() }),
        made => made.map(|_| ()).doing(doing),
    }
}
