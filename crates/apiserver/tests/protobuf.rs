//! Responses in protobuf, to clients that prefer it.

use crate::support::{CRDS, Caller, MAPS, TestPlane, WIDGETS, eventually, map, widget, widgets};
use capstan_apiserver::{Body, Options, Storage};
use capstan_apiserver_proto::decode;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

async fn accept(caller: &Caller, method: &str, path: &str, accept: &str, body: &Value) -> Response<Body> {
    let bytes = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
    let request = request.header(header::CONTENT_TYPE, "application/json");
    caller.0.clone().call(request.body(Full::new(bytes::Bytes::from(bytes))).unwrap()).await.unwrap()
}

fn media_type(response: &Response<Body>) -> String {
    response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned()
}

/// The code and the object of a response, which must be protobuf.
async fn read(caller: &Caller, method: &str, path: &str, accepted: &str, body: &Value) -> (u16, Value) {
    let response = accept(caller, method, path, accepted, body).await;
    assert_eq!(media_type(&response), PROTOBUF, "{method} {path}");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, decode(&bytes).unwrap())
}

async fn get(caller: &Caller, path: &str, accepted: &str) -> (u16, Value) {
    read(caller, "GET", path, accepted, &Value::Null).await
}

async fn with_widgets() -> TestPlane {
    let plane = TestPlane::start().await;
    plane.admin.make(CRDS, &widgets()).await;
    eventually("the CRD is served", || async { plane.admin.get(WIDGETS).await.0 == 200 }).await;
    plane.admin.make(WIDGETS, &widget("w", json!({"size": "S"}))).await;
    plane
}

#[tokio::test]
async fn objects_lists_and_errors_are_what_they_are_as_json() {
    let plane = with_widgets().await;
    let admin = &plane.admin;
    let (code, made) = read(admin, "POST", MAPS, PROTOBUF, &map("a")).await;
    assert_eq!((code, &made["kind"]), (201, &json!("ConfigMap")));
    assert_eq!(made, admin.get(&format!("{MAPS}/a")).await.1);
    for path in [
        format!("{MAPS}/a"),
        "/api/v1/namespaces/default".to_owned(),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin".to_owned(),
        format!("{CRDS}/widgets.example.com"),
        format!("{WIDGETS}/w/scale"),
        "/apis".to_owned(),
        "/apis/apps".to_owned(),
        "/apis/apps/v1".to_owned(),
        "/api/v1".to_owned(),
    ] {
        assert_eq!(get(admin, &path, PROTOBUF).await, admin.get(&path).await, "{path}");
    }
    let (code, missing) = get(admin, &format!("{MAPS}/b"), PROTOBUF).await;
    assert_eq!((code, &missing["kind"], &missing["reason"]), (404, &json!("Status"), &json!("NotFound")));
    assert_eq!(missing, admin.get(&format!("{MAPS}/b")).await.1);
    let (code, list) = get(admin, &format!("{MAPS}?limit=1"), PROTOBUF).await;
    assert_eq!((code, &list["kind"]), (200, &json!("ConfigMapList")));
    assert_eq!(list, admin.get(&format!("{MAPS}?limit=1")).await.1);
    let (code, gone) = read(admin, "DELETE", &format!("{MAPS}/a"), PROTOBUF, &Value::Null).await;
    assert_eq!((code, &gone["status"]), (200, &json!("Success")));
    plane.server.shutdown().await;
}

#[tokio::test]
async fn custom_resources_have_metadata_and_errors_only() {
    let plane = with_widgets().await;
    let admin = &plane.admin;
    let path = format!("{WIDGETS}/w");
    let both = format!("{PROTOBUF},application/json");
    assert_eq!(media_type(&accept(admin, "GET", &path, &both, &Value::Null).await), "application/json");
    let (code, refused) = get(admin, &path, PROTOBUF).await;
    assert_eq!((code, &refused["reason"]), (406, &json!("NotAcceptable")));
    let (code, metadata) = get(admin, &path, METADATA).await;
    assert_eq!((code, &metadata["kind"]), (200, &json!("PartialObjectMetadata")));
    assert_eq!(metadata["metadata"], admin.get(&path).await.1["metadata"]);
    let (code, list) = get(admin, WIDGETS, METADATA).await;
    assert_eq!((code, &list["kind"]), (200, &json!("PartialObjectMetadataList")));
    let item = &list["items"][0];
    assert_eq!((&item["metadata"], &item["kind"]), (&metadata["metadata"], &Value::Null), "no type in items");
    // As upstream: an error is no metadata, so this client accepts no format of it.
    let missing = accept(admin, "GET", &format!("{WIDGETS}/x"), METADATA, &Value::Null).await;
    assert_eq!((missing.status().as_u16(), media_type(&missing)), (404, "application/json".to_owned()));
    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
    assert_eq!(accept(admin, "GET", MAPS, table, &Value::Null).await.status(), 406);
    plane.server.shutdown().await;
}

/// Large enough to be sent in pieces.
#[tokio::test]
async fn a_large_list_is_the_same_in_chunks() {
    let plane = TestPlane::open(Options::new(Storage::Memory)).await;
    let admin = &plane.admin;
    for number in 0..30 {
        let mut object = map(&format!("m{number}"));
        object["data"]["long"] = "x".repeat(number * 1000).into();
        admin.make(MAPS, &object).await;
    }
    let response = accept(admin, "GET", MAPS, PROTOBUF, &Value::Null).await;
    let mut frames = Vec::new();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        frames.push(frame.unwrap().into_data().unwrap());
    }
    assert!(frames.len() > 3 && frames.iter().all(|frame| frame.len() < 150_000), "{}", frames.len());
    assert_eq!(decode(&frames.concat()).unwrap(), admin.get(MAPS).await.1);
    plane.server.shutdown().await;
}

/// The events of a watch in protobuf.
struct Frames {
    body: Body,
    buffer: Vec<u8>,
}

impl Frames {
    /// The next event as its type and its object.
    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some((length, rest)) = self.buffer.split_first_chunk::<4>()
                && let Some(event) = rest.get(..u32::from_be_bytes(*length) as usize)
            {
                // The type first, then the object in the only field of another message.
                let word = String::from_utf8(event[2..2 + usize::from(event[1])].to_vec()).unwrap();
                let start = event.windows(4).position(|bytes| bytes == b"k8s\0").unwrap();
                let object = decode(&event[start..]).unwrap();
                self.buffer.drain(..4 + event.len());
                return (word, object);
            }
            let frame = self.body.frame().await.expect("the stream goes on").unwrap();
            self.buffer.extend_from_slice(&frame.into_data().unwrap());
        }
    }
}

async fn watch(admin: &Caller, path: &str, accepted: &str) -> Frames {
    let response = accept(admin, "GET", path, accepted, &Value::Null).await;
    assert_eq!(media_type(&response), "application/vnd.kubernetes.protobuf;stream=watch");
    Frames { body: response.into_body(), buffer: Vec::new() }
}

#[tokio::test]
async fn watches_are_framed() {
    let plane = with_widgets().await;
    let admin = &plane.admin;
    admin.make(MAPS, &map("a")).await;
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let path = format!("{MAPS}?watch=true&{initial}");
    let mut events = watch(admin, &path, &format!("{PROTOBUF};stream=watch")).await;
    let (word, object) = events.next().await;
    assert_eq!((word.as_str(), &object), ("ADDED", &admin.get(&format!("{MAPS}/a")).await.1));
    let (word, bookmark) = events.next().await;
    assert_eq!((word.as_str(), &bookmark["kind"]), ("BOOKMARK", &json!("ConfigMap")));
    assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let mut large = map("large");
    large["data"]["k"] = "x".repeat(200_000).into();
    admin.make(MAPS, &large).await;
    assert_eq!(events.next().await.1["data"], large["data"]);
    admin.delete(&format!("{MAPS}/a"), &Value::Null).await;
    assert_eq!(events.next().await.0, "DELETED");

    let mut metadata = watch(admin, &format!("{WIDGETS}?watch=true"), METADATA).await;
    let (word, object) = metadata.next().await;
    assert_eq!((word.as_str(), &object["kind"]), ("ADDED", &json!("PartialObjectMetadata")));
    let refused = accept(admin, "GET", &format!("{WIDGETS}?watch=true"), PROTOBUF, &Value::Null).await;
    assert_eq!(refused.status(), 406);
    let yaml = accept(admin, "GET", &format!("{MAPS}?watch=true"), "application/yaml", &Value::Null).await;
    assert_eq!(yaml.status(), 406);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn a_watch_that_cannot_go_on_says_so() {
    let mut options = Options::new(Storage::Memory);
    options.history = 4;
    let plane = TestPlane::open(options).await;
    for number in 0..10 {
        plane.admin.make(MAPS, &map(&format!("m{number}"))).await;
    }
    let mut events = watch(&plane.admin, &format!("{MAPS}?watch=true&resourceVersion=1"), PROTOBUF).await;
    let (word, status) = events.next().await;
    assert_eq!((word.as_str(), &status["kind"], &status["code"]), ("ERROR", &json!("Status"), &json!(410)));
    plane.server.shutdown().await;
}
