//! A management plane, and the few requests a move makes of it.

use capstan_api::clusterctl::Provider;
use capstan_api::crd::CustomResourceDefinition;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::{ObjectMeta, TypeMeta};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::error::{Doing as _, Result};
use crate::graph::Object;
use crate::kinds::{MovableKind, kinds};

/// Who owns the fields that are written here.
const MANAGER: &str = "capstan-move";
/// Objects in one answer.
const PAGE: u32 = 500;

/// A management plane as source or target of a move.
#[derive(Clone)]
pub struct MoveEndpoint {
    client: Client,
    /// What it is called in errors: `the source`.
    called: &'static str,
}

impl MoveEndpoint {
    /// The plane that objects are moved from.
    pub fn source(client: Client) -> Self {
        Self { client, called: "the source" }
    }

    /// The plane that objects are moved to.
    pub fn target(client: Client) -> Self {
        Self { client, called: "the target" }
    }

    /// What tells one plane from another, whatever the addresses it is reached by: the UID of a namespace that every
    /// cluster has and nobody can replace.
    pub(crate) async fn identity(&self) -> Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let system = namespaces.get("kube-system").await.doing(|| format!("cannot reach {}", self.called))?;
        Ok(system.uid().unwrap_or_default())
    }

    pub(crate) async fn kinds(&self) -> Result<Vec<Arc<MovableKind>>> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let crds = crds.list(&ListParams::default()).await;
        Ok(kinds(&crds.doing(|| format!("cannot list the kinds that {} knows", self.called))?.items))
    }

    /// The inventory; empty where there is none.
    pub(crate) async fn providers(&self) -> Result<Vec<Provider>> {
        let api: Api<Provider> = Api::all(self.client.clone());
        match api.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            listed => Ok(listed.doing(|| format!("cannot list the providers of {}", self.called))?.items),
        }
    }

    fn api(&self, kind: &MovableKind, namespace: &str) -> Api<DynamicObject> {
        match kind.namespaced && !namespace.is_empty() {
            true => Api::namespaced_with(self.client.clone(), namespace, &kind.resource),
            false => Api::all_with(self.client.clone(), &kind.resource),
        }
    }

    /// Every object of a kind in a namespace, or everywhere if that is empty.
    pub(crate) async fn list(&self, kind: &Arc<MovableKind>, namespace: &str) -> Result<Vec<Object>> {
        let api = self.api(kind, namespace);
        let mut objects = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = match api.list(&params).await {
                // A CRD that is not served yet, or not any more, has no objects.
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(objects),
                page => page.doing(|| format!("cannot list {} at {}", kind.resource.plural, self.called))?,
            };
            // Items of a list may come without their types.
            let types = Some(TypeMeta {
                api_version: kind.resource.api_version.clone(),
                kind: kind.resource.kind.clone(),
            });
            let typed = |body| DynamicObject { types: types.clone(), ..body };
            objects
                .extend(page.items.into_iter().map(|body| Object { kind: kind.clone(), body: typed(body) }));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(objects),
            }
        }
    }

    pub(crate) async fn get(
        &self,
        kind: &MovableKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<DynamicObject>> {
        let read = self.api(kind, namespace).get_opt(name).await;
        read.doing(|| format!("cannot read {} {namespace}/{name} at {}", kind.resource.kind, self.called))
    }

    /// Makes an object; `None` when there is one of that name.
    pub(crate) async fn create(
        &self,
        object: &Object,
        body: &DynamicObject,
    ) -> Result<Option<DynamicObject>> {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match self.api(&object.kind, object.namespace()).create(&params, body).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(None),
            made => made.doing(|| format!("cannot make {} at {}", object.title(), self.called)).map(Some),
        }
    }

    pub(crate) async fn replace(&self, object: &Object, body: &DynamicObject) -> Result<DynamicObject> {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let replaced = self.api(&object.kind, object.namespace()).replace(object.name(), &params, body).await;
        replaced.doing(|| format!("cannot change {} at {}", object.title(), self.called))
    }

    pub(crate) async fn patch(&self, object: &Object, patch: &Value) -> Result<DynamicObject> {
        self.try_patch(object, patch)
            .await
            .doing(|| format!("cannot change {} at {}", object.title(), self.called))
    }

    /// The same, with the server's own answer when it is refused.
    pub(crate) async fn try_patch(
        &self,
        object: &Object,
        patch: &Value,
    ) -> Result<DynamicObject, kube::Error> {
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.api(&object.kind, object.namespace()).patch(object.name(), &params, &Patch::Merge(patch)).await
    }

    /// Deletes an object, if it is still the same one, and takes off whatever would hold it: nobody is to clean up after
    /// what lives on elsewhere.
    pub(crate) async fn delete(&self, object: &Object) -> Result<()> {
        let only = Preconditions { uid: Some(object.uid().to_owned()), resource_version: None };
        let params = DeleteParams::background().preconditions(only);
        let doing = || format!("cannot delete {} at {}", object.title(), self.called);
        let held = match self.api(&object.kind, object.namespace()).delete(object.name(), &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            gone => gone.doing(doing)?.left().filter(|object| !object.finalizers().is_empty()),
        };
        if held.is_some() { self.free(object).await } else { Ok(()) }
    }

    /// Takes off whatever holds an object that is being deleted.
    pub(crate) async fn free(&self, object: &Object) -> Result<()> {
        let patch = json!({"metadata": {"uid": object.uid(), "finalizers": null}});
        match self.try_patch(object, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            freed => {
                freed.doing(|| format!("cannot delete {} at {}", object.title(), self.called)).map(|_| ())
            }
        }
    }

    pub(crate) async fn ensure_namespace(&self, name: &str) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let doing = || format!("cannot make namespace {name} at {}", self.called);
        if api.get_opt(name).await.doing(doing)?.is_some() {
            return Ok(());
        }
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        match api.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            made => made.doing(doing).map(|_| ()),
        }
    }
}
