//! Creates missing Secrets, starts a new epoch for this plane, and records the digests of the Secrets.

use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::secrets::{self, Purpose, plan_key};
use capstan_controller::{identity, owners};
use capstan_plan::SigningKey;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::changed::has_agent_token;
use super::decide::take_over;
use super::make::contents;
use super::rotation::{self, Replacement, Rotation};
use super::tokens::{self, Separation};
use super::{Decision, KeyDigests, Keys, changed, decide, digests};
use crate::names::{KEY_DIGESTS, ROTATE_PLAN_KEY, plan_secret};
use crate::observe::Observed;
use crate::scope::Scope;

/// The certificates and keys of the cluster; created if that is allowed.
pub(crate) async fn keys(seen: &mut Observed<'_>) -> Result<Option<Keys>> {
    let (scope, cluster) = (seen.scope, seen.scope.cluster_name());
    let missing = match decide(&seen.secrets.by_purpose, &cluster, seen.initialized) {
        Decision::Complete => Vec::new(),
        Decision::Make(missing) => missing,
        Decision::Refuse(why) => {
            seen.certificates = Some(why);
            return Ok(None);
        }
    };
    seen.certificates = Some("Keys and certificates are being made".to_owned());
    let api: Api<Secret> = scope.api();
    for purpose in missing {
        create(&api, scope, &cluster, purpose).await?;
        // An existing Secret counts, whichever client created it.
        let made = scope.get::<Secret>(&purpose.secret_name(&cluster)).await?;
        seen.secrets.by_purpose.extend(made.map(|secret| (purpose, secret)));
    }
    if let Some(key) = seen.secrets.by_purpose.get(&Purpose::PlanKey)
        && let Some(change) = take_over(key, scope.plane)
    {
        let data: BTreeMap<&str, ByteString> =
            change.into_iter().map(|(key, value)| (key, ByteString(value))).collect();
        let patch = json!({"metadata": {"resourceVersion": key.resource_version()}, "data": data});
        let key = scope.patch::<Secret>(&key.name_any(), &patch).await?;
        seen.secrets.by_purpose.insert(Purpose::PlanKey, key);
    }
    let digests = digests(&seen.secrets.by_purpose);
    if seen.initialized
        && let Some(recorded) = scope.key_digests()
        && let Some(why) = changed(&recorded, &digests, &cluster)
    {
        seen.certificates = Some(why);
        return Ok(None);
    }
    if seen.initialized && scope.key_digests().is_none() {
        // The cluster began before digests were recorded: what it is kept by now is what it was made from.
        let digests = recorded(&digests)?;
        scope.record(scope.owner, &[(KEY_DIGESTS, Some(&digests))]).await?;
        seen.again();
        seen.certificates = Some("Digests of keys and certificates are being recorded".to_owned());
        return Ok(None);
    }
    let separation = agent_token(seen).await?;
    let keys = Keys::read(&seen.secrets.by_purpose, &cluster, separation)?;
    seen.certificates = None;
    Ok(Some(keys))
}

/// Does the next write of a plan key replacement, if the user has requested one. Returns whether something was written.
pub(crate) async fn rotate(seen: &mut Observed<'_>, keys: &Keys) -> Result<bool> {
    let scope = seen.scope;
    let (Some(key), Some(recorded)) =
        (seen.secrets.by_purpose.get(&Purpose::PlanKey), scope.key_digests().filter(|_| seen.initialized))
    else {
        return Ok(false);
    };
    let asked = scope.owner.annotations().get(ROTATE_PLAN_KEY).map(String::as_str);
    let now = digests(&seen.secrets.by_purpose);
    let unable = machines_by_key(seen, |key| key.is_none());
    let change = match rotation::decide(rotation::Seen { asked, key, recorded: &recorded, now: &now, unable })
    {
        Rotation::Rest => {
            let current = keys.signing.public().id();
            let behind = machines_by_key(seen, |key| key != Some(current.to_string().as_str()));
            seen.plan_key = asked.map(|_| match behind.is_empty() {
                true => Replacement::Done(current),
                false => Replacement::Behind(behind),
            });
            return Ok(false);
        }
        Rotation::Wait(machines) => {
            seen.plan_key = Some(Replacement::Unable(machines));
            return Ok(false);
        }
        Rotation::Record(digests) => {
            scope.record(scope.owner, &[(KEY_DIGESTS, Some(&self::recorded(&digests)?))]).await?;
            seen.plan_key = Some(Replacement::Underway);
            return Ok(true);
        }
        Rotation::Begin => {
            let next = SigningKey::generate().and_then(|key| key.to_pkcs8());
            let next = next.map_err(|error| Error::transient("cannot make the next plan key", error))?;
            let asked = asked.unwrap_or_default().as_bytes().to_vec();
            vec![(plan_key::NEXT, Some(next)), (plan_key::ROTATION, Some(asked))]
        }
        Rotation::Switch => {
            let name = key.name_any();
            let unreadable =
                || Error::user(format!("Secret {name}"), "has a key that is not Ed25519 in PKCS#8");
            rotation::switched(key).ok_or_else(unreadable)?.to_vec()
        }
    };
    let data: BTreeMap<&str, Option<ByteString>> =
        change.into_iter().map(|(key, value)| (key, value.map(ByteString))).collect();
    let patch = json!({"metadata": {"resourceVersion": key.resource_version()}, "data": data});
    scope.patch::<Secret>(&key.name_any(), &patch).await?;
    seen.plan_key = Some(Replacement::Underway);
    Ok(true)
}

/// Whether the plan key was replaced just now: see [`rotation::is_switched`].
pub(crate) fn is_plan_key_switched(seen: &Observed<'_>) -> bool {
    let recorded = seen.scope.key_digests().unwrap_or_default();
    rotation::is_switched(&recorded, &digests(&seen.secrets.by_purpose))
}

/// The machines with a plan whose report matches this predicate about the trusted key.
fn machines_by_key(seen: &Observed<'_>, is: impl Fn(Option<&str>) -> bool) -> Vec<String> {
    let trusted = |name: &String| seen.objects.reports.get(name)?.status.as_ref()?.plan_key.as_deref();
    let machines = seen.objects.machines.keys();
    let with_plan = machines.filter(|name| seen.secrets.plans.contains_key(&plan_secret(name)));
    with_plan.filter(|name| is(trusted(name))).cloned().collect()
}

/// Ensures that the workers' token exists, if it should, and returns which token workers join with.
async fn agent_token(seen: &mut Observed<'_>) -> Result<Separation> {
    let scope = seen.scope;
    let Some(secret) = seen.secrets.by_purpose.get(&Purpose::Token) else { return Ok(Separation::None) };
    let mut known = tokens::Seen {
        is_there: tokens::agent_token(secret).is_some(),
        is_recorded: scope.key_digests().is_some_and(|recorded| has_agent_token(&recorded)),
        is_elected: scope.elected().is_some(),
        is_initialized: seen.initialized,
    };
    if known.is_due() {
        let token = ByteString(identity::random_secret().into_bytes());
        let patch = json!({
            "metadata": {"resourceVersion": secret.resource_version()},
            "data": {secrets::AGENT_TOKEN: token},
        });
        let secret = scope.patch::<Secret>(&secret.name_any(), &patch).await?;
        seen.secrets.by_purpose.insert(Purpose::Token, secret);
        known.is_there = true;
    }
    Ok(known.separation())
}

/// The digests, in the form in which they are recorded.
pub(crate) fn recorded(digests: &KeyDigests) -> Result<String> {
    serde_json::to_string(digests).map_err(|error| Error::transient("cannot record digests of keys", error))
}

/// Creates one of the Secrets, unless it exists.
async fn create(api: &Api<Secret>, scope: &Scope<'_>, cluster: &str, purpose: Purpose) -> Result<()> {
    let (name, namespace) = (purpose.secret_name(cluster), scope.namespace);
    let doing = || format!("cannot make Secret {namespace}/{name}");
    let mut data =
        off_the_workers(|| contents(purpose, scope.now)).map_err(|error| Error::transient(doing(), error))?;
    if purpose == Purpose::PlanKey {
        // It is not taken over from another plane, which would be one more write.
        data.push((plan_key::PLANE, scope.plane.as_bytes().to_vec()));
    }
    let mut secret = secrets::build(namespace, cluster, name.clone(), data);
    secret.metadata.owner_references = owners::controller(scope.owner).map(|owner| vec![owner]);
    match api.create(&PostParams::default(), &secret).await {
        // Made by another replica, or by the user just now: that one counts.
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        made => made.map(|_| ()).doing(doing),
    }
}

/// Generates a key without blocking the threads of other tasks, if there are several.
fn off_the_workers<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
