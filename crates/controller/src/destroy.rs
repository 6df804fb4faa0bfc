//! The only way in which controllers delete objects: exactly the object that was read, and with grounds.
//!
//! Clippy rejects [`Api::delete`] everywhere else in the crates that reconcile (`clippy.toml` of each). So every
//! deletion names its [`Grounds`], which cannot be made from unknown state.

use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use crate::error::{Doing as _, Error, Result};

pub use capstan_planner::Grounds;

/// Deletes the object that was read, by its UID. Succeeds if the object is already deleted, also if another object
/// has its name.
///
/// # Errors
/// If the API server rejects the request or does not respond.
pub async fn delete<K>(api: &Api<K>, seen: &ObjectMeta, grounds: &Grounds) -> Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let name = seen.name.as_deref().unwrap_or_default();
    let doing = || format!("cannot delete {}", path(api, name));
    let Some(uid) = &seen.uid else {
        return Err(Error::transient(doing(), "the object that was looked at has no UID"));
    };
    let only = Preconditions { uid: Some(uid.clone()), resource_version: None };
    act(api, name, &DeleteParams::default().preconditions(only), grounds).await
}

/// Deletes the object at the resource version that was read. A changed object is not deleted.
///
/// # Errors
/// If the object has changed, or the API server rejects the request or does not respond.
pub async fn delete_unchanged<K>(api: &Api<K>, seen: &ObjectMeta, grounds: &Grounds) -> Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let name = seen.name.as_deref().unwrap_or_default();
    let doing = || format!("cannot delete {}", path(api, name));
    if seen.uid.is_none() || seen.resource_version.is_none() {
        return Err(Error::transient(doing(), "the object that was looked at has no version"));
    }
    let only = Preconditions { uid: seen.uid.clone(), resource_version: seen.resource_version.clone() };
    act(api, name, &DeleteParams::default().preconditions(only), grounds).await
}

/// Deletes the object of this name, for references without a UID.
///
/// # Errors
/// If the API server rejects the request or does not respond.
pub async fn delete_by_name<K>(api: &Api<K>, name: &str, grounds: &Grounds) -> Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    act(api, name, &DeleteParams::default(), grounds).await
}

#[allow(clippy::disallowed_methods, reason = "this is the place")]
async fn act<K>(api: &Api<K>, name: &str, how: &DeleteParams, grounds: &Grounds) -> Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let path = path(api, name);
    match api.delete(name, how).await {
        Ok(_) => {
            tracing::info!(object = %path, %grounds, "asked for the deletion of an object");
            Ok(())
        }
        // Upstream's in-memory server answers with nothing at all.
        Err(kube::Error::SerdeError(_)) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        // Another object has the name.
        Err(kube::Error::Api(status)) if status.code == 409 && is_by_identity(how) => Ok(()),
        Err(error) => Err(error).doing(|| format!("cannot delete {path}")),
    }
}

/// Whether it is said which object is meant, and not in which version.
fn is_by_identity(how: &DeleteParams) -> bool {
    how.preconditions.as_ref().is_some_and(|only| only.uid.is_some() && only.resource_version.is_none())
}

fn path<K: Resource>(api: &Api<K>, name: &str) -> String {
    format!("{}/{name}", api.resource_url())
}
