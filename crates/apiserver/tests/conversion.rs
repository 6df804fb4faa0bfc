//! Versions that only a webhook can turn into each other: in `v1` a widget has a `size`, in `v2`, which is stored,
//! `dimensions`.

use crate::support::{CRDS, TestPlane, webhook::Webhook, widgets};
use capstan_apiserver::{Options, Storage};
use serde_json::{Value, json};

const V1: &str = "/apis/example.com/v1/namespaces/default/widgets";
const V2: &str = "/apis/example.com/v2/namespaces/default/widgets";

/// Moves the size, and meddles with what it may not.
fn convert(_: &str, request: &Value) -> Value {
    let version = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = object.clone();
        let spec = object["spec"].as_object_mut().unwrap();
        let (from, to) =
            if version.ends_with("v2") { ("size", "dimensions") } else { ("dimensions", "size") };
        if let Some(size) = spec.shift_remove(from) {
            spec.insert(to.to_owned(), size);
        }
        object["apiVersion"] = version.into();
        object["metadata"]["finalizers"] = json!(["example.com/meddling"]);
        object["metadata"]["annotations"]["converted"] = version.into();
        if object["spec"].get("broken").is_some() {
            object["metadata"]["uid"] = "another".into();
        }
        object
    });
    json!({"convertedObjects": objects.collect::<Vec<_>>(), "result": {"status": "Success"}})
}

fn definition(client_config: &Value) -> Value {
    let mut crd = widgets();
    let mut v1 = crd["spec"]["versions"][0].take();
    v1["storage"] = false.into();
    v1["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["broken"] =
        json!({"type": "boolean"});
    let mut v2 = v1.clone();
    v2["name"] = "v2".into();
    v2["storage"] = true.into();
    let properties =
        v2["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].as_object_mut().unwrap();
    let size = properties.shift_remove("size").unwrap();
    properties.insert("dimensions".to_owned(), size);
    crd["spec"]["versions"] = json!([v1, v2]);
    crd["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]},
    });
    crd
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn by_service(hook: &Webhook) -> TestPlane {
    let mut options = Options::new(Storage::Memory);
    options.webhook_services = hook.services();
    let plane = TestPlane::open(options).await;
    plane.admin.make(CRDS, &definition(&hook.by_service("/convert"))).await;
    plane
}

#[tokio::test]
async fn every_verb_goes_through_it() {
    let hook = Webhook::start(convert).await;
    let plane = by_service(&hook).await;
    let mut watch = plane.admin.watch(&format!("{V1}?watch=1&resourceVersion=0")).await;
    let made = plane.admin.make(V1, &widget("a", &json!({"size": "S"}))).await;
    assert_eq!((&made["apiVersion"], &made["spec"]["size"]), (&json!("example.com/v1"), &json!("S")));
    assert!(made["metadata"].get("finalizers").is_none(), "not the webhook's to set: {made}");
    let (_, stored) = plane.admin.get(&format!("{V2}/a")).await;
    assert_eq!(stored["spec"], json!({"replicas": 1, "dimensions": "S"}));
    assert_eq!(stored["metadata"]["annotations"]["converted"], "example.com/v2");
    assert_eq!(stored["metadata"]["uid"], made["metadata"]["uid"]);

    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["spec"]["size"]), (&json!("ADDED"), &json!("S")));
    let (code, patched) = plane.admin.merge(&format!("{V1}/a"), &json!({"spec": {"size": "L"}})).await;
    assert_eq!((code, &patched["spec"]["size"]), (200, &json!("L")), "{patched}");
    assert_eq!(watch.next().await.unwrap()["object"]["spec"]["size"], "L");
    let (code, invalid) = plane.admin.merge(&format!("{V1}/a"), &json!({"spec": {"size": "XL"}})).await;
    assert_eq!(code, 422, "{invalid}");

    let applied = widget("a", &json!({"size": "S", "replicas": 3}));
    let (code, applied) = plane.admin.apply(&format!("{V1}/a?fieldManager=m&force=true"), &applied).await;
    assert_eq!((code, &applied["spec"]), (200, &json!({"replicas": 3, "size": "S"})));
    let mut replaced = applied.clone();
    replaced["spec"]["size"] = "L".into();
    let (code, replaced) = plane.admin.put(&format!("{V1}/a"), &replaced).await;
    assert_eq!((code, &replaced["spec"]["size"]), (200, &json!("L")), "{replaced}");
    let (code, status) = plane.admin.merge(&format!("{V1}/a/status"), &json!({"status": {"x": 1}})).await;
    assert_eq!((code, &status["status"]), (200, &json!({"x": 1})), "{status}");
    assert_eq!(plane.admin.get(&format!("{V2}/a")).await.1["spec"]["dimensions"], "L");
    assert_eq!(plane.admin.delete(&format!("{V1}/a"), &Value::Null).await.0, 200);
    plane.admin.gone(&format!("{V2}/a")).await;
}

#[tokio::test]
async fn a_list_is_one_call_and_what_is_stored_is_none() {
    let hook = Webhook::start(convert).await;
    let plane = by_service(&hook).await;
    for name in ["a", "b", "c"] {
        let mut widget = widget(name, &json!({"dimensions": "S"}));
        widget["apiVersion"] = "example.com/v2".into();
        plane.admin.make(V2, &widget).await;
    }
    plane.admin.get(V2).await;
    assert!(hook.asked().is_empty(), "nothing to convert");
    let (_, list) = plane.admin.get(V1).await;
    assert_eq!(
        list["items"].as_array().unwrap().iter().filter(|item| item["spec"]["size"] == "S").count(),
        3
    );
    let asked = hook.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1["objects"].as_array().unwrap().len(), 3);
    let mut watch = plane.admin.watch(&format!("{V1}?watch=1")).await;
    watch.next().await.unwrap();
    assert_eq!(hook.asked().len(), 1, "the first events of a watch, too");
}

#[tokio::test]
async fn failures_are_said() {
    let hook = Webhook::start(convert).await;
    let plane = by_service(&hook).await;
    let mut broken = widget("a", &json!({"dimensions": "S", "broken": true}));
    broken["apiVersion"] = "example.com/v2".into();
    plane.admin.make(V2, &broken).await;
    let (code, error) = plane.admin.get(&format!("{V1}/a")).await;
    let text = error["message"].as_str().unwrap();
    assert_eq!(code, 500);
    assert!(text.starts_with("conversion webhook for example.com/v2, Kind=Widget"), "{text}");
    assert!(text.contains("must have the same uid"), "{text}");
    assert_eq!(plane.admin.delete(&format!("{V2}/a"), &Value::Null).await.0, 200, "it can still be deleted");
    drop(hook);
    let (code, error) = plane.admin.post(V1, &widget("b", &json!({}))).await;
    assert!(code == 500 && error["message"].as_str().unwrap().contains("failed"), "{error}");
}

#[tokio::test]
async fn whom_to_trust_and_where_to_look() {
    let hook = Webhook::start(convert).await;
    // Not in the map.
    let plane = TestPlane::start().await;
    plane.admin.make(CRDS, &definition(&hook.by_service("/convert"))).await;
    let (code, error) = plane.admin.post(V1, &widget("a", &json!({}))).await;
    assert!(
        code == 500 && error["message"].as_str().unwrap().contains("--webhook-service system/hook="),
        "{error}"
    );
    // By URL, and then under an authority that did not sign it.
    let other = Webhook::start(convert).await;
    let mut config = hook.client_config("/convert");
    let change = |config: &Value| json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}});
    let path = format!("{CRDS}/widgets.example.com");
    let by_url = json!({"service": null, "url": config["url"], "caBundle": config["caBundle"]});
    let (code, answer) = plane.admin.merge(&path, &change(&by_url)).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(plane.admin.post(V1, &widget("a", &json!({"size": "L"}))).await.0, 201);
    config["caBundle"] = other.client_config("")["caBundle"].clone();
    plane.admin.merge(&path, &change(&config)).await;
    let (code, error) = plane.admin.post(V1, &widget("b", &json!({}))).await;
    assert!(code == 500 && error["message"].as_str().unwrap().contains("certificate"), "{error}");
    // A CRD that cannot work is refused.
    let (code, refused) = plane.admin.merge(&path, &change(&json!({"url": "http://a"}))).await;
    assert_eq!(
        (code, &refused["details"]["causes"][0]["field"]),
        (422, &json!("spec.conversion.webhookClientConfig.url"))
    );
}
