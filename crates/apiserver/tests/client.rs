//! kube-rs as a client, without a socket: typed and dynamic objects, watchers, server-side apply.

use std::{collections::BTreeMap, time::Duration};

use crate::support::{CRDS, TestPlane, eventually, widgets};
use capstan_apiserver::User;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    discovery::Discovery,
    runtime::{WatchStreamExt, reflector, watcher},
};
use serde_json::json;

fn client(plane: &TestPlane) -> Client {
    Client::new(plane.server.service(User::admin()), "default")
}

fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("k".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn typed_objects() {
    let plane = TestPlane::start().await;
    let client = client(&plane);
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut made = maps.create(&PostParams::default(), &map("a", "1")).await.unwrap();
    made.data.as_mut().unwrap().insert("k".to_owned(), "2".to_owned());
    let replaced = maps.replace("a", &PostParams::default(), &made).await.unwrap();
    let stale = maps.replace("a", &PostParams::default(), &made).await.unwrap_err();
    assert!(matches!(&stale, kube::Error::Api(status) if status.is_conflict()), "{stale}");
    assert_eq!(maps.get("a").await.unwrap(), replaced);
    assert!(maps.get_opt("none").await.unwrap().is_none());

    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = Secret {
        metadata: ObjectMeta { name: Some("s".to_owned()), ..ObjectMeta::default() },
        string_data: Some(BTreeMap::from([("k".to_owned(), "plain".to_owned())])),
        ..Secret::default()
    };
    let made = secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(made.data.unwrap()["k"].0, b"plain");
    assert_eq!(made.type_.as_deref(), Some("Opaque"));
    let opaque = secrets.list(&ListParams::default().fields("type=Opaque")).await.unwrap();
    assert_eq!(opaque.items.len(), 1);

    let leases: Api<Lease> = Api::default_namespaced(client);
    let lease = serde_json::from_value(json!({
        "metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.123456Z"},
    }));
    let made = leases.create(&PostParams::default(), &lease.unwrap()).await.unwrap();
    assert_eq!(made.spec.unwrap().renew_time.unwrap().0.subsec_microsecond(), 123_456);
    maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn watchers_of_both_kinds_follow() {
    let plane = TestPlane::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&plane));
    maps.create(&PostParams::default(), &map("before", "1")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let (reader, writer) = reflector::store();
        let stream = watcher(maps.clone(), config).reflect(writer).applied_objects();
        let task = tokio::spawn(stream.for_each(|_| std::future::ready(())));
        tokio::time::timeout(Duration::from_secs(5), reader.wait_until_ready()).await.unwrap().unwrap();
        assert!(reader.find(|map| map.name_any() == "before").is_some());
        maps.create(&PostParams::default(), &map("after", "1")).await.unwrap();
        eventually("the new one is seen", || async {
            reader.find(|map| map.name_any() == "after").is_some()
        })
        .await;
        maps.delete("after", &DeleteParams::default()).await.unwrap();
        eventually("its end is seen", || async { reader.find(|map| map.name_any() == "after").is_none() })
            .await;
        task.abort();
    }
}

#[tokio::test]
async fn custom_resources_are_discovered_and_applied() {
    let plane = TestPlane::start().await;
    plane.admin.make(CRDS, &widgets()).await;
    let client = client(&plane);
    let discovery = Discovery::new(client.clone()).run_aggregated().await.unwrap();
    let (resource, capabilities) =
        discovery.resolve_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget")).unwrap();
    assert_eq!(resource.plural, "widgets");
    assert!(capabilities.subresources.iter().any(|(subresource, _)| subresource.plural == "status"));
    let legacy = Discovery::new(client.clone()).run().await.unwrap();
    assert!(legacy.resolve_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget")).is_some());

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let widget =
        |spec: serde_json::Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": spec});
    let mine = PatchParams::apply("mine");
    let made = api.patch("a", &mine, &Patch::Apply(widget(json!({"size": "S"})))).await.unwrap();
    assert_eq!(made.data["spec"], json!({"size": "S", "replicas": 1}));
    let again = api.patch("a", &mine, &Patch::Apply(widget(json!({"size": "S"})))).await.unwrap();
    assert_eq!(again.resource_version(), made.resource_version(), "nothing to do, nothing done");
    let status = json!({"apiVersion": "example.com/v1", "kind": "Widget", "status": {"replicas": 3}});
    let written = api.patch_status("a", &mine, &Patch::Apply(status)).await.unwrap();
    assert_eq!(written.data["status"]["replicas"], 3);
    let mut events = api.watch(&kube::api::WatchParams::default(), "0").await.unwrap().boxed();
    let first = events.try_next().await.unwrap().unwrap();
    assert!(matches!(first, kube::api::WatchEvent::Added(object) if object.name_any() == "a"));
}
