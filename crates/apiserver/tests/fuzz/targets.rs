//! Where nonsense goes, and the sensible inputs that it is made from.

use std::{future::Future, path::Path, pin::Pin};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use capstan_apiserver_schema::{Expression, Structural};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::support::{CRDS, Caller, MAPS, WIDGETS};

/// Bytes to try.
#[derive(Clone, Debug)]
pub(crate) struct Input(pub(crate) Vec<u8>);

const BINARY: &str = "base64:";

impl Input {
    fn parse(line: &str) -> Self {
        let text: String = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        match text.strip_prefix(BINARY) {
            Some(encoded) => Self(STANDARD.decode(encoded).unwrap()),
            None => Self(text.into_bytes()),
        }
    }

    /// As it is kept.
    pub(crate) fn text(&self) -> String {
        match str::from_utf8(&self.0) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("{BINARY}{}", STANDARD.encode(&self.0)),
        }
    }

    fn encoded(&self) -> String {
        form_urlencoded::byte_serialize(&self.0).collect()
    }
}

type Attempt = Pin<Box<dyn Future<Output = Option<Answer>> + Send>>;

/// What came of an attempt; the worst is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Answer {
    /// Whether the server says that something is wrong with itself.
    pub(crate) is_failure: bool,
    pub(crate) code: u16,
    pub(crate) size: usize,
}

/// One way in. An attempt gives nothing if there was nothing to ask.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) attempt: fn(Caller, Input) -> Attempt,
}

impl Target {
    pub(crate) fn corpus(&self) -> Vec<Input> {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(format!("{}.txt", self.name));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().filter(|line| !line.is_empty()).map(Input::parse).collect()
    }
}

pub(crate) const TARGETS: [Target; 15] = [
    Target { name: "json", attempt: |caller, input| post(caller, "application/json", input) },
    Target { name: "yaml", attempt: |caller, input| post(caller, "application/yaml", input) },
    Target {
        name: "protobuf",
        attempt: |caller, input| post(caller, "application/vnd.kubernetes.protobuf", input),
    },
    Target {
        name: "json-patch",
        attempt: |caller, input| patch(caller, "application/json-patch+json", input),
    },
    Target {
        name: "merge-patch",
        attempt: |caller, input| patch(caller, "application/merge-patch+json", input),
    },
    Target {
        name: "strategic-patch",
        attempt: |caller, input| patch(caller, "application/strategic-merge-patch+json", input),
    },
    Target { name: "apply", attempt: |caller, input| patch(caller, "application/apply-patch+yaml", input) },
    Target { name: "label-selector", attempt: |caller, input| list(caller, "labelSelector", &input) },
    Target { name: "field-selector", attempt: |caller, input| list(caller, "fieldSelector", &input) },
    Target { name: "continue", attempt: |caller, input| list(caller, "limit=1&continue", &input) },
    Target { name: "resource-version", attempt: |caller, input| list(caller, "resourceVersion", &input) },
    Target { name: "query", attempt: query },
    Target { name: "accept", attempt: accept },
    Target { name: "crd", attempt: crd },
    Target { name: "cel", attempt: cel },
];

async fn ask(caller: Caller, request: http::request::Builder, body: Vec<u8>) -> Option<Answer> {
    // What is no request cannot be sent.
    let request = request.header("user-agent", "fuzz").body(Full::new(Bytes::from(body))).ok()?;
    let watches = request.uri().query().is_some_and(|query| query.contains("watch"));
    let mut response = caller.0.clone().call(request).await.unwrap();
    let code = response.status().as_u16();
    if watches && code == 200 {
        // It may go on for ever.
        return Some(Answer { is_failure: false, code, size: 0 });
    }
    let body = response.body_mut().collect().await.unwrap().to_bytes();
    let is_failure = match code {
        // A resourceVersion that is yet to come.
        504 => false,
        // What cannot be applied is refused with this code and no reason, as upstream does.
        500 => serde_json::from_slice::<Value>(&body).map_or(true, |status| !status["reason"].is_null()),
        code => code > 500,
    };
    Some(Answer { is_failure, code, size: body.len() })
}

/// To a built-in kind, and to one with a schema of its own.
fn post(caller: Caller, media: &'static str, input: Input) -> Attempt {
    Box::pin(async move {
        let mut worst = None;
        let paths = [MAPS, WIDGETS, "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/pods"];
        for path in paths {
            let uri = format!("{path}?dryRun=All");
            let request = Request::post(uri).header("content-type", media);
            worst = worst.max(ask(caller.clone(), request, input.0.clone()).await);
        }
        let put = Request::put(format!("{WIDGETS}/w")).header("content-type", media);
        let delete = Request::delete(format!("{MAPS}/none")).header("content-type", media);
        let put = ask(caller.clone(), put, input.0.clone()).await;
        worst.max(put).max(ask(caller, delete, input.0).await)
    })
}

fn patch(caller: Caller, media: &'static str, input: Input) -> Attempt {
    Box::pin(async move {
        let mut worst = None;
        let paths = [
            format!("{MAPS}/m"),
            format!("{WIDGETS}/w"),
            format!("{WIDGETS}/w/status"),
            format!("{WIDGETS}/w/scale"),
            "/api/v1/namespaces/default".to_owned(),
        ];
        for path in paths {
            let dry = if path.ends_with("default") { "&dryRun=All" } else { "" };
            let force = if media.contains("apply") { "&force=true" } else { "" };
            let request =
                Request::patch(format!("{path}?fieldManager=fuzz{dry}{force}")).header("content-type", media);
            worst = worst.max(ask(caller.clone(), request, input.0.clone()).await);
        }
        worst
    })
}

fn list(caller: Caller, parameter: &'static str, input: &Input) -> Attempt {
    let value = input.encoded();
    Box::pin(async move {
        let mut worst = None;
        for path in [WIDGETS, "/api/v1/namespaces", "/api/v1/events"] {
            for more in [
                "",
                "&resourceVersionMatch=Exact",
                "&resourceVersionMatch=NotOlderThan",
                "&watch=1&timeoutSeconds=1",
            ] {
                let request = Request::get(format!("{path}?{parameter}={value}{more}"));
                worst = worst.max(ask(caller.clone(), request, Vec::new()).await);
            }
        }
        worst
    })
}

/// A path with a query, as it is.
fn query(caller: Caller, input: Input) -> Attempt {
    Box::pin(async move {
        let text = String::from_utf8_lossy(&input.0).replace(' ', "+");
        let mut worst = None;
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS"] {
            let request =
                Request::builder().method(method).uri(&text).header("content-type", "application/json");
            worst = worst.max(ask(caller.clone(), request, b"{}".to_vec()).await);
        }
        worst
    })
}

fn accept(caller: Caller, input: Input) -> Attempt {
    Box::pin(async move {
        let mut worst = None;
        for path in [WIDGETS, "/api/v1/namespaces/default", "/apis", "/openapi/v3", "/version"] {
            let request = Request::get(path).header("accept", input.0.as_slice());
            worst = worst.max(ask(caller.clone(), request, Vec::new()).await);
        }
        worst
    })
}

/// A definition, which is only judged.
fn crd(caller: Caller, input: Input) -> Attempt {
    let request = Request::post(format!("{CRDS}?dryRun=All")).header("content-type", "application/yaml");
    Box::pin(ask(caller, request, input.0))
}

/// An expression: compiled, judged and evaluated, as a condition of its own and as a rule of a schema.
fn cel(_: Caller, input: Input) -> Attempt {
    Box::pin(async move {
        let source = String::from_utf8_lossy(&input.0).into_owned();
        tokio::task::spawn_blocking(move || {
            let object = json!({"s": "text", "n": 3, "l": ["a", "b"], "m": {"x": 1, "y": 2}});
            if let Ok(expression) = Expression::compile(&source, &["self", "oldSelf"]) {
                _ = expression.holds(&[("self", &object), ("oldSelf", &object)]);
            }
            let text = json!({"type": "string", "maxLength": 20});
            let schema = json!({
                "type": "object", "x-kubernetes-validations": [{"rule": source, "messageExpression": source}],
                "properties": {
                    "s": text, "n": {"type": "integer"}, "l": {"type": "array", "maxItems": 10, "items": text},
                    "m": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "integer"}},
                },
            });
            let whole = json!({"type": "object", "properties": {"spec": schema}});
            if let Ok(schema) = Structural::compile(&whole) {
                let object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": object});
                _ = schema.validate(&object, Some(&object));
            }
        })
        .await
        .unwrap();
        None
    })
}
