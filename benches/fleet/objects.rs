//! Creates and changes many objects at once, as users with scripts do.

use anyhow::{Context as _, Result};
use capstan_tests::namespaced;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::Value;

/// Requests at a time.
const PARALLEL: usize = 8;

/// Creates objects, in this order up to a few.
pub(crate) async fn create(client: &kube::Client, objects: Vec<Value>) -> Result<()> {
    let created = objects.into_iter().map(async |object| {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let what = format!("cannot create {kind} {name}");
        let api = namespaced(client, text("/metadata/namespace"), text("/apiVersion"), kind);
        let object: DynamicObject = serde_json::from_value(object.clone()).with_context(|| what.clone())?;
        api.create(&PostParams::default(), &object).await.with_context(|| what)?;
        anyhow::Ok(())
    });
    futures::stream::iter(created).buffer_unordered(PARALLEL).try_collect().await
}

/// Changes objects of one kind in the same way.
pub(crate) async fn patch(api: &Api<DynamicObject>, names: &[String], change: &Value) -> Result<()> {
    let changed = names.iter().map(async |name| {
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        patched.with_context(|| format!("cannot change {name}"))?;
        anyhow::Ok(())
    });
    futures::stream::iter(changed).buffer_unordered(PARALLEL).try_collect().await
}

/// Deletes objects of one kind.
pub(crate) async fn delete(api: &Api<DynamicObject>, names: &[String]) -> Result<()> {
    let deleted = names.iter().map(async |name| {
        let deleted = api.delete(name, &Default::default()).await;
        deleted.with_context(|| format!("cannot delete {name}"))?;
        anyhow::Ok(())
    });
    futures::stream::iter(deleted).buffer_unordered(PARALLEL).try_collect().await
}
