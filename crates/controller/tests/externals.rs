//! Providers' objects while a provider moves on to another version: its CRD drops one while the process runs.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use capstan_api::core::MachinePool;
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::external::Externals;
use capstan_controller::{Caches, Metrics, Settings};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::reflector::ObjectRef;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

const GROUP: &str = "test.cluster.x-k8s.io";
const DEADLINE: Duration = Duration::from_secs(60);

/// A plane with a provider's kind in two versions, of which the CRD names the first, and an object `a` that the
/// ConfigMap `o` owns.
struct ProviderPlane {
    client: Client,
    /// UID of the ConfigMap.
    owner: String,
    _server: Arc<ApiServer>,
}

impl ProviderPlane {
    async fn open() -> Self {
        let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
        let client = Client::new(server.service(User::admin()), "default");
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let crd = serde_json::from_value(crd("v1", true)).unwrap();
        crds.create(&PostParams::default(), &crd).await.unwrap();
        let owner: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "o"}})).unwrap();
        let owner =
            Api::namespaced(client.clone(), "default").create(&PostParams::default(), &owner).await.unwrap();
        let plane = Self { client, owner: owner.uid().unwrap(), _server: server };
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": plane.owner});
        let object = json!({"apiVersion": format!("{GROUP}/v2"), "kind": "TestThing",
            "metadata": {"name": "a", "ownerReferences": [owner]}});
        let object = serde_json::from_value(object).unwrap();
        let made = async {
            // The kind is served a moment after its CRD is there.
            while plane.things().create(&PostParams::default(), &object).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, made).await.expect("the kind is served");
        plane
    }

    /// The objects, in the version that stays.
    fn things(&self) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v2", "TestThing"));
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    async fn drop_the_first_version(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let patch = Patch::Merge(crd("v2", false));
        crds.patch(&format!("testthings.{GROUP}"), &PatchParams::default(), &patch).await.unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", "TestThing"));
        let former: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &resource);
        let dropped = async {
            while former.get("a").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, dropped).await.expect("the first version is served no more");
    }
}

fn crd(contract: &str, is_first_served: bool) -> Value {
    let version = |name: &str, is_served: bool| {
        json!({
            "name": name, "served": is_served, "storage": name == "v2",
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("testthings.{GROUP}"), "labels": {"cluster.x-k8s.io/v1beta2": contract}},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": "TestThing", "plural": "testthings", "singular": "testthing"},
            "versions": [version("v1", is_first_served), version("v2", true)],
        },
    })
}

fn reference(name: &str) -> ContractVersionedObjectReference {
    let (api_group, kind) = (GROUP.to_owned(), "TestThing".to_owned());
    ContractVersionedObjectReference { api_group, kind, name: name.to_owned() }
}

async fn version_of(externals: &Externals) -> String {
    let found = externals.get(&reference("a"), "default").await.unwrap().expect("it is there all the time");
    found.types.unwrap().api_version
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_is_read_watched_and_written() {
    let plane = ProviderPlane::open().await;
    let metrics = Metrics::default();
    let caches = Caches::new(plane.client.clone()).with_engine(metrics.clone(), Settings::default());
    let externals = Externals::in_memory(&caches).reading_again_after(Duration::from_millis(20));
    let mut changes = Box::pin(externals.changes::<ConfigMap>());
    let mut heard = async || tokio::time::timeout(DEADLINE, changes.next()).await.expect("news").unwrap();
    assert_eq!(version_of(&externals).await, format!("{GROUP}/v1"));
    let owner = ObjectRef::new("o").within("default");
    assert_eq!(heard().await, owner);

    plane.drop_the_first_version().await;
    let moved = async {
        while version_of(&externals).await != format!("{GROUP}/v2") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, moved).await.expect("the new version is read");
    // From memory, too, and owners are told of changes in it.
    let owned = externals.owned(&reference(""), "default", &plane.owner).await.unwrap();
    assert_eq!(owned.len(), 1);
    assert_eq!(heard().await, owner);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"changed": "yes"}}}));
    let things = externals.api(&reference("a"), "default").await.unwrap();
    things.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(heard().await, owner);

    // The version that is not served is not watched any more: what was in memory of it is gone.
    let one = "capstan_cache_objects{kind=\"TestThing\"} 1\n";
    let ended = async {
        while !metrics.text().contains(one) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, ended).await.unwrap_or_else(|_| panic!("{}", metrics.text()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_in_a_version_that_was_dropped_is_not_missing() {
    let plane = ProviderPlane::open().await;
    // Nothing is read again because of time alone.
    let externals = Externals::new(plane.client.clone()).reading_again_after(Duration::MAX);
    assert_eq!(version_of(&externals).await, format!("{GROUP}/v1"));
    assert!(externals.get(&reference("b"), "default").await.unwrap().is_none());
    plane.drop_the_first_version().await;
    assert_eq!(version_of(&externals).await, format!("{GROUP}/v2"));
    assert!(externals.get(&reference("b"), "default").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_reaches_the_pool_that_its_label_names() {
    let plane = ProviderPlane::open().await;
    let externals = Externals::in_memory(&Caches::new(plane.client.clone()));
    let mut changes = Box::pin(externals.changes::<MachinePool>());
    assert_eq!(version_of(&externals).await, format!("{GROUP}/v1"));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"cluster.x-k8s.io/pool-name": "p"}}}));
    plane.things().patch("a", &PatchParams::default(), &patch).await.unwrap();
    let heard = tokio::time::timeout(DEADLINE, changes.next()).await.expect("news").unwrap();
    assert_eq!(heard, ObjectRef::new("p").within("default"));
}
