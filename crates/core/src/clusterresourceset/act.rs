//! Writes of a ClusterResourceSet: owners, records, and the objects in workload clusters. All are idempotent.

use capstan_api::addons::{
    ClusterResourceSet, ClusterResourceSetBinding, ClusterResourceSetBindingSpec, ClusterResourceSetStrategy,
    ResourceKind, ResourceRef,
};
use capstan_api::core::Cluster;
use capstan_controller::error::{Doing as _, Error};
use capstan_controller::merge::difference;
use capstan_controller::{Grounds, Result, destroy, owners};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, ObjectMeta};
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Debug;

use super::content::Content;
use super::observe::{Resource, ResourceState};
use crate::Core;

/// Makes a ClusterResourceSet an owner of its ConfigMap or Secret, which moves and ends with it.
pub(super) async fn own(core: &Core, set: &ClusterResourceSet, resource: &Resource) -> Result<()> {
    let (ResourceState::Found { metadata, .. }, Some(owner)) = (&resource.state, owners::plain(set)) else {
        return Ok(());
    };
    let mut after = metadata.as_ref().clone();
    if !owners::ensure(&mut after, &owner) {
        return Ok(());
    }
    let namespace = set.namespace().unwrap_or_default();
    match resource.reference.kind {
        ResourceKind::ConfigMap => {
            write_owners(&core.api::<ConfigMap>(&namespace), &after, "ConfigMap").await
        }
        ResourceKind::Secret => write_owners(&core.api::<Secret>(&namespace), &after, "Secret").await,
    }
}

async fn write_owners<K>(api: &Api<K>, metadata: &ObjectMeta, kind: &str) -> Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let name = metadata.name.as_deref().unwrap_or_default();
    let patch = json!({"metadata": {
        "resourceVersion": metadata.resource_version,
        "ownerReferences": metadata.owner_references,
    }});
    let written = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    written.map(|_| ()).doing(|| format!("cannot make the ClusterResourceSet an owner of {kind} {name}"))
}

/// The record of a cluster. It is created if it does not exist.
pub(super) async fn binding(
    core: &Core,
    set: &ClusterResourceSet,
    cluster: &Cluster,
) -> Result<ClusterResourceSetBinding> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    if let Some(found) = core.caches.of::<ClusterResourceSetBinding>().get(&namespace, &name).await? {
        return Ok(found.as_ref().clone());
    }
    let spec = ClusterResourceSetBindingSpec { cluster_name: name.clone(), bindings: Vec::new() };
    let mut binding = ClusterResourceSetBinding::new(&name, spec);
    binding.metadata.namespace = Some(namespace.clone());
    binding.metadata.owner_references = owners::plain(set).map(|owner| vec![owner]);
    let made = core.api(&namespace).create(&PostParams::default(), &binding).await;
    // Another ClusterResourceSet may have been faster: the next reconcile reads what it made.
    made.doing(|| format!("cannot create ClusterResourceSetBinding {namespace}/{name}"))
}

/// Writes the changes of a record, unless another client has written it. A record without entries is deleted.
pub(super) async fn write_binding(
    core: &Core,
    before: &ClusterResourceSetBinding,
    after: &ClusterResourceSetBinding,
) -> Result<()> {
    let (namespace, name) = (before.namespace().unwrap_or_default(), before.name_any());
    let api = core.api::<ClusterResourceSetBinding>(&namespace);
    if after.spec.bindings.is_empty() {
        let grounds = Grounds::asked("no ClusterResourceSet applies to the cluster any more");
        return destroy::delete_unchanged(&api, &before.metadata, &grounds).await;
    }
    let is_same =
        before.spec == after.spec && before.metadata.owner_references == after.metadata.owner_references;
    if is_same {
        return Ok(());
    }
    let patch = json!({
        "metadata": {
            "resourceVersion": before.metadata.resource_version,
            "ownerReferences": after.metadata.owner_references,
        },
        "spec": after.spec,
    });
    let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    written.map(|_| ()).doing(|| format!("cannot write ClusterResourceSetBinding {namespace}/{name}"))
}

/// How the objects of a ConfigMap or Secret were applied.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Objects that were not accepted, and why.
    pub(super) problems: Vec<String>,
    /// The cluster does not respond: the objects after the last problem were not tried.
    pub(super) is_interrupted: bool,
}

/// Applies all objects of a ConfigMap or Secret to a cluster. An object that is not accepted does not keep the others from being
/// applied, unless the cluster does not respond: each further request would wait for its timeout.
pub(super) async fn apply(
    client: &Client,
    set: &ClusterResourceSet,
    of: &ResourceRef,
    content: &Content,
) -> Applied {
    let strategy = set.spec.strategy.unwrap_or_default();
    let mut kinds = HashMap::new();
    let mut applied = Applied::default();
    for object in &content.objects {
        let object = Manifest::of(object);
        let Err(error) = object.apply(client, strategy, &mut kinds).await else { continue };
        // Messages of an API server repeat values, and those of a Secret must not be shown.
        let why = match of.kind {
            ResourceKind::Secret => "it was not accepted".to_owned(),
            ResourceKind::ConfigMap => capstan_text::chain(&error),
        };
        applied.problems.push(format!("{:?} {}: {}: {why}", of.kind, of.name, object.name()));
        applied.is_interrupted = has_no_response(&error);
        if applied.is_interrupted {
            break;
        }
    }
    applied
}

/// Whether a request failed without a response of the API server.
fn has_no_response(error: &Error) -> bool {
    let Error::Transient { source, .. } = error else { return false };
    matches!(source.downcast_ref::<kube::Error>(), Some(kube::Error::Service(_) | kube::Error::HyperError(_)))
}

type Kinds = HashMap<GroupVersionKind, (ApiResource, bool)>;

/// An object to apply.
struct Manifest<'a> {
    kind: GroupVersionKind,
    name: &'a str,
    namespace: Option<&'a str>,
    object: &'a Value,
}

impl<'a> Manifest<'a> {
    fn of(object: &'a Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let api_version = text("/apiVersion").unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            kind: GroupVersionKind::gvk(group, version, text("/kind").unwrap_or_default()),
            name: text("/metadata/name").unwrap_or_default(),
            namespace: text("/metadata/namespace"),
            object,
        }
    }

    fn name(&self) -> String {
        match self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        }
    }

    async fn apply(
        &self,
        client: &Client,
        strategy: ClusterResourceSetStrategy,
        kinds: &mut Kinds,
    ) -> Result<()> {
        let api = self.api(client, kinds).await?;
        let found = api.get_opt(self.name).await.doing(|| "cannot read it".to_owned())?;
        let found = found.as_ref().map(serde_json::to_value).transpose();
        let found = found.map_err(|error| Error::transient("cannot compare it", error))?;
        match step(strategy, found.as_ref(), self.object) {
            Step::Keep => Ok(()),
            Step::Create => self.create(&api).await,
            Step::Change(patch) => {
                let patched = api.patch(self.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
                patched.map(|_| ()).doing(|| "cannot change it".to_owned())
            }
        }
    }

    async fn create(&self, api: &Api<DynamicObject>) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(self.object.clone())
            .map_err(|error| Error::transient("it is not an object", error))?;
        // If another client was faster, the next attempt finds the object.
        let created = api.create(&PostParams::default(), &object).await;
        created.map(|_| ()).doing(|| "cannot create it".to_owned())
    }

    async fn api(&self, client: &Client, kinds: &mut Kinds) -> Result<Api<DynamicObject>> {
        if !kinds.contains_key(&self.kind) {
            let found = pinned_kind(client, &self.kind).await;
            let (resource, capabilities) =
                found.doing(|| "the cluster does not serve its kind".to_owned())?;
            kinds.insert(self.kind.clone(), (resource, capabilities.scope == Scope::Namespaced));
        }
        let (resource, is_namespaced) = &kinds[&self.kind];
        match (is_namespaced, self.namespace) {
            (true, Some(namespace)) => Ok(Api::namespaced_with(client.clone(), namespace, resource)),
            (true, None) => Err(Error::user("metadata.namespace", "is missing; its kind has namespaces")),
            (false, _) => Ok(Api::all_with(client.clone(), resource)),
        }
    }
}

/// What is done with an object.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Create,
    Keep,
    /// Send this merge patch.
    Change(Value),
}

/// The step for an object that was found like this. An object that exists is not created: an API server may reject that for other
/// reasons than the name, such as the node port of a Service, which is in use by the Service itself.
fn step(strategy: ClusterResourceSetStrategy, found: Option<&Value>, manifest: &Value) -> Step {
    match (found, strategy) {
        (None, _) => Step::Create,
        (Some(_), ClusterResourceSetStrategy::ApplyOnce) => Step::Keep,
        (Some(found), ClusterResourceSetStrategy::Reconcile) => {
            change(found, manifest).map_or(Step::Keep, Step::Change)
        }
    }
}

/// The merge patch that makes an object as its manifest says. What the manifest does not mention is removed, as upstream does;
/// apart from what the API server and other controllers keep in an object: its status, and its metadata without labels and annotations.
fn change(found: &Value, manifest: &Value) -> Option<Value> {
    let kept = |object: &Value| {
        let mut object = object.clone();
        let fields = object.as_object_mut()?;
        fields.remove("status");
        let metadata = fields.remove("metadata").unwrap_or_default();
        let of_user = ["labels", "annotations"].into_iter().filter_map(|field| {
            let values = metadata.get(field).filter(|values| !values.is_null())?;
            Some((field.to_owned(), values.clone()))
        });
        let of_user: serde_json::Map<String, Value> = of_user.collect();
        fields.insert("metadata".to_owned(), Value::Object(of_user));
        Some(object)
    };
    difference(&kept(found)?, &kept(manifest)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_becomes_its_manifest_apart_from_what_others_keep_in_it() {
        let found = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "p", "uid": "1", "resourceVersion": "7", "finalizers": ["kubernetes.io/pvc-protection"],
                "labels": {"a": "1", "b": "2"}, "ownerReferences": [{"name": "o"}],
            },
            "spec": {"x": 1, "defaulted": true}, "status": {"phase": "Bound"},
        });
        let manifest = |labels: Value, x: i32| {
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "p", "labels": labels}, "spec": {"x": x, "defaulted": true},
            })
        };
        assert_eq!(change(&found, &manifest(json!({"a": "1", "b": "2"}), 1)), None);
        assert_eq!(
            change(&found, &manifest(json!({"a": "3"}), 2)),
            Some(json!({"metadata": {"labels": {"a": "3", "b": null}}, "spec": {"x": 2}}))
        );
        let mut without = manifest(json!({}), 1);
        without["metadata"] = json!({"name": "p"});
        assert_eq!(change(&found, &without), Some(json!({"metadata": {"labels": null}})));
        without["spec"] = json!({"x": 1});
        let patch = change(&found, &without).expect("a patch");
        assert_eq!(patch["spec"], json!({"defaulted": null}));
    }

    #[test]
    fn an_object_that_exists_is_not_created() {
        use ClusterResourceSetStrategy::{ApplyOnce, Reconcile};
        let service = |port: i32| {
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                "spec": {"ports": [{"port": 80, "nodePort": port}]},
            })
        };
        let changed = Step::Change(json!({"spec": {"ports": [{"port": 80, "nodePort": 30002}]}}));
        for (strategy, found, expected) in [
            (ApplyOnce, None, Step::Create),
            (Reconcile, None, Step::Create),
            (ApplyOnce, Some(service(30001)), Step::Keep),
            (Reconcile, Some(service(30002)), Step::Keep),
            (Reconcile, Some(service(30001)), changed),
        ] {
            assert_eq!(step(strategy, found.as_ref(), &service(30002)), expected, "{strategy:?} {found:?}");
        }
    }

    #[test]
    fn a_rejection_is_a_response() {
        let failed = |error: kube::Error| Err::<(), _>(error).doing(String::new).expect_err("it failed");
        assert!(has_no_response(&failed(kube::Error::Service("connection refused".into()))));
        for (code, reason) in
            [(403, "Forbidden"), (409, "Conflict"), (422, "Invalid"), (500, "InternalError")]
        {
            let status = kube::core::Status { code, reason: reason.to_owned(), ..Default::default() };
            assert!(!has_no_response(&failed(kube::Error::Api(Box::new(status)))), "{code}");
        }
        assert!(!has_no_response(&Error::user("metadata.namespace", "is missing")));
    }

    #[test]
    fn an_object_is_named_by_kind_namespace_and_name() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}});
        let manifest = Manifest::of(&object);
        assert_eq!(manifest.kind, GroupVersionKind::gvk("apps", "v1", "Deployment"));
        assert_eq!(manifest.name(), "Deployment n/d");
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}});
        let manifest = Manifest::of(&object);
        assert_eq!((manifest.kind.group.as_str(), manifest.name()), ("", "Node x".to_owned()));
    }
}
