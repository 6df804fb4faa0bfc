//! What the suites against a real API server share: a plane with core running on it, and providers played by the test.

#![allow(dead_code, reason = "every suite uses a part of it")]

pub(crate) mod provider;

use anyhow::{Context as _, Result};
use capstan_core::{Core, controllers};
use capstan_testkit::{RealPlane, eventually, install_crds};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub(crate) const NAMESPACE: &str = "flow";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A real plane with our core running on it. Everything ends with it.
pub(crate) struct Stage {
    pub(crate) plane: RealPlane,
    pub(crate) client: Client,
    _stop: oneshot::Sender<()>,
    _running: JoinSet<()>,
}

impl Stage {
    /// Starts a plane with the CRDs of core and whatever `prepare` adds, and then core.
    pub(crate) async fn start(prepare: impl AsyncFnOnce(&Client) -> Result<()>) -> Result<Self> {
        let plane = RealPlane::start().await?;
        let client = plane.client();
        install_crds(&client, &capstan_api::crd::core_provider()).await?;
        prepare(&client).await?;
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;

        let (stop, stopped) = oneshot::channel::<()>();
        let stopped: BoxFuture<'static, ()> = stopped.map(|_| ()).boxed();
        let stopped: Shared<BoxFuture<'static, ()>> = stopped.shared();
        let mut running = JoinSet::new();
        for controller in controllers(&Core::new(client.clone()), &stopped) {
            running.spawn(controller);
        }
        Ok(Self { plane, client, _stop: stop, _running: running })
    }

    /// Objects of one kind in the namespace of the test.
    pub(crate) fn api(&self, group_version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.client, group_version, kind)
    }

    /// Creates an object from JSON.
    pub(crate) async fn create(&self, object: Value) -> Result<()> {
        let (version, kind) = (object["apiVersion"].clone(), object["kind"].clone());
        let api = self.api(version.as_str().context("a version")?, kind.as_str().context("a kind")?);
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.context("cannot create")?;
        Ok(())
    }
}

pub(crate) fn api(client: &Client, group_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// Waits until `holds` is content with the object, and gives it. `holds` says what is wrong otherwise.
pub(crate) async fn until(
    api: &Api<DynamicObject>,
    name: &str,
    what: &str,
    holds: impl Fn(&DynamicObject) -> Result<()>,
) -> Result<DynamicObject> {
    eventually(PATIENCE, what, async || {
        let object = api.get(name).await?;
        holds(&object).with_context(|| format!("status {}", object.data["status"]))?;
        Ok(object)
    })
    .await
}

/// Waits until the object is gone.
pub(crate) async fn until_gone(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    eventually(PATIENCE, &format!("{name} to be gone"), async || match api.get_opt(name).await? {
        None => Ok(()),
        Some(object) => anyhow::bail!("still there: {:?} {}", object.finalizers(), object.data["status"]),
    })
    .await
}

/// Merges into an object, as its provider would.
pub(crate) async fn merge(api: &Api<DynamicObject>, name: &str, patch: &Value) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.context("cannot patch")?;
    Ok(())
}

/// Merges into an object's status, as its provider would.
pub(crate) async fn merge_status(api: &Api<DynamicObject>, name: &str, status: &Value) -> Result<()> {
    let patch = json!({ "status": status });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .context("cannot patch status")?;
    Ok(())
}

/// A condition as `Status/Reason: message`.
pub(crate) fn condition_of(object: &DynamicObject, type_: &str) -> String {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == type_);
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    found.map_or("missing".to_owned(), |condition| {
        let message = text(condition, "message");
        let message = if message.is_empty() { message } else { format!(": {message}") };
        format!("{}/{}{message}", text(condition, "status"), text(condition, "reason"))
    })
}
