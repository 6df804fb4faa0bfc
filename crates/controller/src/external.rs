//! Objects of other providers' kinds, read by the contract.
//!
//! A reference names group, kind and name. A label of the CRD names the version, so a provider can introduce a new version
//! without a change of references. The first read of a kind also starts a watch: [`Externals::changes`] sends changes to the
//! objects and to their owners.

use capstan_api::core::MachinePool;
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_text::api_version;
use futures::{Stream, StreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta, PartialObjectMeta};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt as _};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::{AbortHandle, JoinSet};

use crate::cache::{Cache, Cached, Caches, Key};
use crate::error::{Doing, Error, Result};
use crate::scope::Scope;
use crate::signal::Signal;

/// Versions of the contract that are understood, newest first.
const CONTRACTS: [&str; 1] = ["v1beta2"];

/// A CRD is read again after this time, unless said otherwise.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// An object of a watched kind has changed: the object itself, one of its owners, or the MachinePool that its label names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Concerned {
    kind: String,
    namespace: Option<String>,
    name: String,
}

/// Reads objects of kinds that are known only by reference, and watches the kinds it has read.
#[derive(Clone)]
pub struct Externals {
    client: Client,
    scope: Scope,
    /// The caches, if objects are read from caches.
    memory: Option<Caches>,
    /// A CRD is read again after this time.
    read_again: Duration,
    shared: Arc<Shared>,
}

struct Shared {
    changes: Signal<Concerned>,
    kinds: Mutex<HashMap<(String, String), ExternalKind>>,
    watches: Mutex<JoinSet<()>>,
}

/// A kind that was read.
#[derive(Clone)]
struct ExternalKind {
    resource: ApiResource,
    /// Its cached objects, if they are cached.
    objects: Option<Cache<DynamicObject>>,
    /// When its CRD was read: a provider may have introduced another version since.
    read: Instant,
    /// The task that sends changes to objects and owners. It is aborted when the kind is read in another version: a watch of a version that
    /// is no longer served would be retried for ever.
    notifier: AbortHandle,
}

impl Externals {
    /// Reads every object from the API server, for programs that end soon. Nothing is watched before the first read.
    pub fn new(client: Client) -> Self {
        let shared =
            Shared { changes: Signal::default(), kinds: Mutex::default(), watches: Mutex::default() };
        let (scope, shared) = (Scope::default(), Arc::new(shared));
        Self { client, scope, memory: None, read_again: READ_AGAIN, shared }
    }

    /// Reads objects from the cache, for controllers, which are woken by every change.
    pub fn in_memory(caches: &Caches) -> Self {
        Self { memory: Some(caches.clone()), ..Self::new(caches.client().clone()) }
    }

    /// Limits watches to this scope.
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Sets the time after which a CRD is read again, and so the delay until another version of a provider is used.
    #[must_use]
    pub fn reading_again_after(self, read_again: Duration) -> Self {
        Self { read_again, ..self }
    }

    /// Returns a copy that writes with another client.
    #[must_use]
    pub fn written_with(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// The object that `reference` names, or `None` if it does not exist.
    pub async fn get(
        &self,
        reference: &ContractVersionedObjectReference,
        namespace: &str,
    ) -> Result<Option<DynamicObject>> {
        let kind = self.kind(&reference.api_group, &reference.kind).await?;
        let key = Key::new(namespace, &reference.name);
        if let Some(found) = kind.objects.as_ref().and_then(|objects| objects.now(&key)) {
            return Ok(Some(found.as_ref().clone()));
        }
        // An object that is not cached may be too new, or outside of the scope of the watch.
        let ask = async |resource: &ApiResource| {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, resource);
            api.get(&reference.name).await
        };
        let mut answer = ask(&kind.resource).await;
        if answer.as_ref().is_err_and(is_about_no_object) {
            // The version may no longer be served, which does not mean that the object is deleted.
            let read = self.read(&reference.api_group, &reference.kind).await?;
            if read.resource != kind.resource {
                answer = ask(&read.resource).await;
            }
        }
        let is_unserved = answer.as_ref().is_err_and(is_about_no_object);
        match answer {
            // If the API server does not serve the version, it is unknown whether the object exists.
            Err(kube::Error::Api(status)) if status.is_not_found() && !is_unserved => Ok(None),
            answer => answer
                .map(Some)
                .doing(|| format!("cannot read {} {namespace}/{}", reference.kind, reference.name)),
        }
    }

    /// The object of a name in this version of its kind, which need not be the one that implements the newest contract.
    /// Only that one is served from the cache.
    pub async fn get_version(
        &self,
        kind: (&str, &str),
        namespace: &str,
        name: &str,
    ) -> Result<Option<DynamicObject>> {
        let (api_version, kind) = kind;
        let resource = self.resource_version_of(api_version, kind).await?;
        let mut found = if self.resource(&resource.group, kind).await? == resource {
            let (api_group, kind, name) = (resource.group.clone(), kind.to_owned(), name.to_owned());
            self.get(&ContractVersionedObjectReference { api_group, kind, name }, namespace).await?
        } else {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
            api.get_opt(name).await.doing(|| format!("cannot read {kind} {namespace}/{name}"))?
        };
        if let Some(found) = &mut found {
            found.types.get_or_insert(TypeMeta { api_version: resource.api_version, kind: resource.kind });
        }
        Ok(found)
    }

    /// An API client for this version of a kind, in one namespace.
    pub async fn api_version(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Result<Api<DynamicObject>> {
        let resource = self.resource_version_of(api_version, kind).await?;
        Ok(Api::namespaced_with(self.client.clone(), namespace, &resource))
    }

    async fn resource_version_of(&self, api_version: &str, kind: &str) -> Result<ApiResource> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let known = self.resource(group, kind).await?;
        if known.version == version {
            return Ok(known);
        }
        let kind = GroupVersionKind::gvk(group, version, kind);
        Ok(ApiResource::from_gvk_with_plural(&kind, &known.plural))
    }

    /// Whether a version of a kind implements the contract of this name, as the labels of the CRD say.
    pub async fn implements(&self, api_version: &str, kind: &str, contract: &str) -> Result<bool> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let name = format!("{}.{group}", plural(kind));
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let crd = crds.get_metadata_opt(&name).await.doing(|| format!("cannot read CRD {name}"))?;
        let label = format!("cluster.x-k8s.io/{contract}");
        let listed = crd.and_then(|crd| crd.labels().get(&label).cloned()).unwrap_or_default();
        Ok(listed.split('_').any(|one| one == version))
    }

    /// All objects of a kind in a namespace. Served from the cache if there is one: without a request, and slightly stale.
    pub async fn list(&self, group: &str, kind: &str, namespace: &str) -> Result<Vec<Arc<DynamicObject>>> {
        let known = self.kind(group, kind).await?;
        if let Some(objects) = &known.objects {
            let mut found = objects.all().await?;
            found.retain(|object| object.namespace().as_deref() == Some(namespace));
            return Ok(found);
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &known.resource);
        let listed = api.list(&ListParams::default()).await;
        let listed = listed.doing(|| format!("cannot list {kind} in {namespace}"))?;
        Ok(listed.items.into_iter().map(Arc::new).collect())
    }

    /// Metadata of the objects in a namespace that have the kind of `reference` and the owner with the UID `owner`.
    /// Served from the cache if there is one: without a request, and slightly stale.
    pub async fn owned(
        &self,
        reference: &ContractVersionedObjectReference,
        namespace: &str,
        owner: &str,
    ) -> Result<Vec<ObjectMeta>> {
        let kind = self.kind(&reference.api_group, &reference.kind).await?;
        let mut found: Vec<ObjectMeta> = match &kind.objects {
            Some(objects) => {
                objects.of_owner(owner).await?.iter().map(|object| object.metadata.clone()).collect()
            }
            None => {
                let api: Api<DynamicObject> =
                    Api::namespaced_with(self.client.clone(), namespace, &kind.resource);
                let listed = api.list_metadata(&ListParams::default()).await;
                let listed = listed.doing(|| format!("cannot list {} in {namespace}", reference.kind))?;
                listed.items.into_iter().map(|object| object.metadata).collect()
            }
        };
        found.retain(|object| {
            object.namespace.as_deref() == Some(namespace)
                && object.owner_references.iter().flatten().any(|reference| reference.uid == owner)
        });
        Ok(found)
    }

    /// An API client for the kind that `reference` names, in one namespace.
    pub async fn api(
        &self,
        reference: &ContractVersionedObjectReference,
        namespace: &str,
    ) -> Result<Api<DynamicObject>> {
        let resource = self.resource(&reference.api_group, &reference.kind).await?;
        Ok(Api::namespaced_with(self.client.clone(), namespace, &resource))
    }

    /// The API resource of the kind, in the version that the contract label of its CRD names.
    pub async fn resource(&self, group: &str, kind: &str) -> Result<ApiResource> {
        Ok(self.kind(group, kind).await?.resource)
    }

    async fn kind(&self, group: &str, kind: &str) -> Result<ExternalKind> {
        let key = (group.to_owned(), kind.to_owned());
        let due = {
            let mut kinds = lock(&self.shared.kinds);
            match kinds.get_mut(&key) {
                Some(known) if known.read.elapsed() < self.read_again => return Ok(known.clone()),
                // One caller reads the CRD again; the others continue with the known version.
                Some(known) => Some(std::mem::replace(&mut known.read, Instant::now())),
                None => None,
            }
        };
        let read = self.read(group, kind).await;
        if let (Err(_), Some(due)) = (&read, due)
            && let Some(known) = lock(&self.shared.kinds).get_mut(&key)
        {
            known.read = due;
        }
        read
    }

    /// Reads the CRD of a kind, and starts a watch unless this version is watched already.
    async fn read(&self, group: &str, kind: &str) -> Result<ExternalKind> {
        let resource = resource_of(&self.client, group, kind).await?;
        let key = (group.to_owned(), kind.to_owned());
        let mut kinds = lock(&self.shared.kinds);
        let known = kinds.get(&key).cloned();
        let (objects, notifier) = match known {
            Some(known) if known.resource == resource => (known.objects, known.notifier),
            known => {
                if let Some(former) = known {
                    tracing::info!(
                        kind,
                        from = former.resource.version,
                        to = resource.version,
                        "reads another version"
                    );
                    former.notifier.abort();
                }
                self.watch(&resource)
            }
        };
        let kind = ExternalKind { resource, objects, read: Instant::now(), notifier };
        kinds.insert(key, kind.clone());
        Ok(kind)
    }

    /// Watches a kind: whole objects if they are read from the cache, otherwise their owner references only.
    fn watch(&self, resource: &ApiResource) -> (Option<Cache<DynamicObject>>, AbortHandle) {
        if let Some(memory) = &self.memory {
            let objects = memory.of_external(&self.scope, resource);
            let notifier = self.notify(&objects, &resource.kind);
            return (Some(objects), notifier);
        }
        let api: Api<PartialObjectMeta<DynamicObject>> = self.scope.api_of(&self.client, resource);
        let objects = Cache::watching(api, watcher::Config::default(), &resource.kind);
        (None, self.notify(&objects, &resource.kind))
    }

    fn notify<K: Cached>(&self, objects: &Cache<K>, kind: &str) -> AbortHandle {
        let (changes, kind) = (self.shared.changes.clone(), kind.to_owned());
        let changed = objects.changed(kube::ResourceExt::resource_version);
        lock(&self.shared.watches).spawn(async move {
            let mut changed = std::pin::pin!(changed);
            while let Some(object) = changed.next().await {
                let owners = object.owner_references().iter();
                let owners = owners.map(|owner| (owner.kind.clone(), owner.name.clone()));
                // The owner of an infrastructure machine of a MachinePool is an object of the provider.
                let pool = object.labels().get(labels::POOL_NAME);
                let pool = pool.map(|name| (MachinePool::kind(&()).into_owned(), name.clone()));
                for (kind, name) in owners.chain(pool).chain([(kind.clone(), object.name_any())]) {
                    changes.send(&Concerned { kind, namespace: object.namespace(), name });
                }
            }
        })
    }

    /// Objects of kind `K` that have changed, if they are read by reference, and those that own a changed object. The name of a
    /// MachinePool may be the value of the label of a changed object, in which a long name is a hash.
    pub fn changes<K>(&self) -> impl Stream<Item = ObjectRef<K>> + Send + 'static + use<K>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        self.shared.changes.listen().filter_map(|concerned| async move {
            let reference = (concerned.kind == K::kind(&())).then(|| ObjectRef::new(&concerned.name))?;
            Some(match &concerned.namespace {
                Some(namespace) => reference.within(namespace),
                None => reference,
            })
        })
    }
}

/// The API resource of a kind, in the version that the contract label of its CRD names. Nothing is cached or watched.
pub async fn resource_of(client: &Client, group: &str, kind: &str) -> Result<ApiResource> {
    let plural = plural(kind);
    let name = format!("{plural}.{group}");
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    // Metadata only: a CRD with its schemas may be a megabyte. Its name begins with the plural.
    let crd = crds.get_metadata_opt(&name).await.doing(|| format!("cannot read CRD {name}"))?;
    let crd = crd.ok_or_else(|| {
        Error::user(format!("{kind}.{group}"), format!("there is no CRD {name}: install the provider"))
    })?;
    let version = contract_version(crd.labels()).ok_or_else(|| {
        let label = format!("cluster.x-k8s.io/{}", CONTRACTS[0]);
        Error::user(
            format!("CRD {name}"),
            format!("has no label {label}: the provider is too old or too new"),
        )
    })?;
    Ok(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, &version, kind), &plural))
}

/// Whether a 404 response is about the path and not about an object: the API server serves nothing at the path.
fn is_about_no_object(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_none_or(|details| details.name.is_empty())
}

/// The version that implements the newest contract we understand: the highest of those its label lists.
fn contract_version(labels: &std::collections::BTreeMap<String, String>) -> Option<String> {
    let listed = CONTRACTS.iter().find_map(|contract| labels.get(&format!("cluster.x-k8s.io/{contract}")))?;
    listed
        .split('_')
        .filter(|version| !version.is_empty())
        .min_by(|a, b| api_version::compare(a, b))
        .map(str::to_owned)
}

/// The plural that the contract derives from a kind. No client finds a CRD with another plural.
fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.as_bytes() {
        [.., b's' | b'x' | b'z'] | [.., b'c' | b's', b'h'] => format!("{kind}es"),
        [.., before, b'y'] if !b"aeiou".contains(before) => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The content is a cache: a panic elsewhere leaves it usable.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_highest_version_of_the_contract_counts() {
        for (label, version) in [
            ("v1beta1", Some("v1beta1")),
            ("v1alpha4_v1beta1", Some("v1beta1")),
            ("v1beta1_v1_v1beta2", Some("v1")),
            ("v1beta2_v1beta10", Some("v1beta10")),
            ("", None),
        ] {
            let labels = BTreeMap::from([("cluster.x-k8s.io/v1beta2".to_owned(), label.to_owned())]);
            assert_eq!(contract_version(&labels).as_deref(), version, "{label}");
        }
        assert_eq!(contract_version(&BTreeMap::new()), None);
    }

    #[test]
    fn plurals_are_those_of_the_contract() {
        for (kind, expected) in [
            ("HostMachine", "hostmachines"),
            ("CapstanConfig", "capstanconfigs"),
            ("IPAddress", "ipaddresses"),
            ("ClusterClass", "clusterclasses"),
            ("Policy", "policies"),
            ("Gateway", "gateways"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }
}
