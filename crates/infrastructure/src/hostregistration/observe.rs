//! What a reconcile of a HostRegistration reads. No writes.

use capstan_api::infrastructure::{Host, HostRegistration};
use capstan_controller::Result;
use capstan_controller::error::Doing as _;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::sync::Arc;

use super::decide::Observed;
use crate::context::Infrastructure;
use crate::host_token::{HostToken, SECRET_TYPE, secret_name};

/// What was read.
pub(super) struct Seen {
    token: Option<HostToken>,
    hosts: Vec<Arc<Host>>,
    registrations: Vec<Arc<HostRegistration>>,
}

impl Seen {
    pub(super) fn observed<'a>(&'a self, registration: &'a HostRegistration) -> Observed<'a> {
        let Self { token, hosts, registrations } = self;
        Observed { registration, token: token.as_ref(), hosts, registrations }
    }
}

pub(super) async fn observe(
    infrastructure: &Infrastructure,
    registration: &HostRegistration,
) -> Result<Seen> {
    let namespace = registration.namespace().unwrap_or_default();
    let caches = &infrastructure.caches;
    let hosts = caches.of::<Host>().in_namespace(&namespace).await?;
    // An approved registration needs no token, which may be gone by then.
    let token = match registration.spec.host.is_some() && !registration.owner_references().is_empty() {
        true => None,
        false => token(infrastructure, &namespace, &registration.spec.token).await?,
    };
    let registrations = caches.of::<HostRegistration>().in_namespace(&namespace).await?;
    Ok(Seen { token, hosts, registrations })
}

/// The join token with this name. A Secret of another type is none.
async fn token(infrastructure: &Infrastructure, namespace: &str, name: &str) -> Result<Option<HostToken>> {
    let secret = secret_name(name);
    let found = infrastructure.api::<Secret>(namespace).get_opt(&secret).await;
    let found = found.doing(|| format!("cannot read Secret {namespace}/{secret}"))?;
    let is_token = |secret: &Secret| secret.type_.as_deref() == Some(SECRET_TYPE);
    Ok(found.filter(is_token).and_then(|secret| HostToken::read(name, &secret).ok()))
}
