//! Writes of the HostRegistration controller. Each is idempotent.

use capstan_api::infrastructure::{Host, HostRegistration};
use capstan_controller::error::{Doing as _, Error};
use capstan_controller::patch::Patcher;
use capstan_controller::{Grounds, Result, destroy, owners, pause};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

use super::decide::{self, RegistrationStep, approves};
use super::{credential, status};
use crate::context::Infrastructure;
use crate::names::events;
use crate::news::News;

/// Finalizers of the garbage collector.
const COLLECTOR: [&str; 2] = ["foregroundDeletion", "orphan"];

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
            // Without its registration the machine stops dialing out.
            if is_approved(infrastructure, registration).await? {
                let doing = format!("cannot delete HostRegistration {}", registration.name_any());
                return Err(Error::Conflict { doing });
            }
            release(infrastructure, registration).await?;
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
        RegistrationStep::Later => return Ok(()),
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

/// Whether a Host approves the registration. What is in memory may be a moment old, so this asks the API server.
pub(super) async fn is_approved(
    infrastructure: &Infrastructure,
    registration: &HostRegistration,
) -> Result<bool> {
    let hosts = hosts(infrastructure, &registration.namespace().unwrap_or_default()).await?;
    Ok(hosts.iter().any(|host| approves(host, registration)))
}

/// Removes the finalizers of a registration that no Host approves, except those of the garbage collector. Its author may have
/// added some, which would keep it for ever.
pub(super) async fn release(infrastructure: &Infrastructure, registration: &HostRegistration) -> Result<()> {
    let present = registration.finalizers();
    let kept: Vec<&String> = present.iter().filter(|name| COLLECTOR.contains(&name.as_str())).collect();
    if kept.len() == present.len() {
        return Ok(());
    }
    let patch = json!({"metadata": {
        "resourceVersion": registration.resource_version(), "finalizers": kept,
    }});
    let name = registration.name_any();
    let api = infrastructure.api::<HostRegistration>(&registration.namespace().unwrap_or_default());
    let done = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    done.map(|_| ()).doing(|| format!("cannot release HostRegistration {name}"))
}

/// The Hosts of a namespace, read from the API server.
async fn hosts(infrastructure: &Infrastructure, namespace: &str) -> Result<Vec<Host>> {
    let listed = infrastructure.api::<Host>(namespace).list(&ListParams::default()).await;
    listed.map(|hosts| hosts.items).doing(|| format!("cannot list Hosts in {namespace}"))
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
    let hosts = hosts(infrastructure, namespace).await?;
    let doing = || format!("cannot make Host {namespace}/{}", host.name_any());
    if hosts.iter().any(|host| decide::names(host, &registration.name_any())) {
        return Err(Error::Conflict { doing: doing() });
    }
    match api.create(&PostParams::default(), host).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Err(Error::Conflict { doing: doing() }),
        made => made.map(|_| ()).doing(doing),
    }
}

/// Gives an approved machine its rights, and then a token that only it can read. If the process stops before the token is
/// written, no client has it.
pub(super) async fn give_credential(
    infrastructure: &Infrastructure,
    registration: &HostRegistration,
) -> Result<()> {
    let namespace = registration.namespace().unwrap_or_default();
    let accounts = infrastructure.api::<ServiceAccount>(&namespace);
    let account = ensure(&accounts, credential::service_account(registration)).await?;
    // A server refuses a binding to a role that is not there yet.
    ensure(&infrastructure.api::<Role>(&namespace), credential::rights(registration)).await?;
    ensure(&infrastructure.api::<RoleBinding>(&namespace), credential::binding(registration)).await?;
    let uid = account.uid().unwrap_or_default();
    let issued = infrastructure.now();
    let (token, expires) = token(&accounts, &account.name_any(), &uid).await?;
    let name = registration.name_any();
    let doing = || format!("cannot give HostRegistration {namespace}/{name} its credential");
    let credential = credential::sealed(registration, &token, &uid, issued, expires).map_err(|error| {
        Error::user(format!("spec.publicKey of HostRegistration {name}"), error.to_string())
    })?;
    let patch = json!({
        "metadata": {"resourceVersion": registration.resource_version()},
        "spec": {"credential": credential},
    });
    let api = infrastructure.api::<HostRegistration>(&namespace);
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(|_| ()).doing(doing)
}

/// Creates an object, or corrects the one of its name.
async fn ensure<K>(api: &Api<K>, wanted: Value) -> Result<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let doing = || format!("cannot make {} {name}", K::kind(&()));
    let object: K =
        serde_json::from_value(wanted.clone()).map_err(|error| Error::transient(doing(), error))?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&wanted)).await.doing(doing)
        }
        made => made.doing(doing),
    }
}

/// Requests a token of the ServiceAccount with this name and UID.
async fn token(accounts: &Api<ServiceAccount>, name: &str, uid: &str) -> Result<(String, Timestamp)> {
    let request = TokenRequest {
        metadata: ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() },
        spec: Some(TokenRequestSpec {
            // The API server's own.
            audiences: Some(Vec::new()),
            expiration_seconds: Some(credential::LIFE.as_secs()),
            ..TokenRequestSpec::default()
        }),
        status: None,
    };
    let doing = || format!("cannot get a token for ServiceAccount {name}");
    let made = accounts.create_token_request(name, &PostParams::default(), &request).await.doing(doing)?;
    let status = made.status.unwrap_or_default();
    match (status.token, status.expiration_timestamp) {
        (Some(token), Some(expires)) if !token.is_empty() => Ok((token, expires.0)),
        _ => Err(Error::transient(doing(), "there is none in the answer")),
    }
}
