//! Sends requests to both planes, and compares what they say.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use capstan_testkit::eventually;
use capstan_tests::{Answer, Caller};
use serde_json::{Value, json};

use crate::kinds::{self, TrialKind};
use crate::same;

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Stands for the name of the object a sequence is about: another one each time it is played.
pub(crate) const NAME: &str = "@name";
/// Stands for the resourceVersion that the object has on the plane the request goes to.
pub(crate) const CURRENT: &str = "@current";
/// The media type of an apply.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// A request with places for what differs from one plane to the other.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) media: &'static str,
    pub(crate) body: Value,
    /// The user it is sent for. An administrator, if there is none.
    pub(crate) user: Option<&'static str>,
}

impl Request {
    /// A request of an administrator.
    pub(crate) fn new(method: &'static str, path: String, media: &'static str, body: Value) -> Self {
        Self { method, path, media, body, user: None }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = self.user {
            write!(out, "as {user}: ")?;
        }
        write!(out, "{} {}", self.method, self.path)?;
        if !self.body.is_null() {
            write!(out, " {} {}", self.media, self.body)?;
        }
        Ok(())
    }
}

/// A real plane and an embedded one.
pub(crate) struct Planes {
    real: Caller,
    embedded: Caller,
    played: AtomicU64,
}

impl Planes {
    /// Both, with the kinds that requests are about.
    pub(crate) async fn new(real: Caller, embedded: Caller) -> Self {
        for plane in [&real, &embedded] {
            let namespace = json!({"metadata": {"name": kinds::NAMESPACE}});
            let made = plane.ask("POST", "/api/v1/namespaces", &namespace).await.unwrap();
            assert_eq!(made.code, 201, "{made:?}");
        }
        let planes = Self { real, embedded, played: AtomicU64::new(0) };
        planes.define(&kinds::definition(), kinds::WIDGETS).await;
        planes
    }

    /// Makes a kind on both planes, and waits until it is served under `path`.
    pub(crate) async fn define(&self, definition: &Value, path: &str) {
        for plane in [&self.real, &self.embedded] {
            let made = plane.ask("POST", DEFINITIONS, definition).await.unwrap();
            assert_eq!(made.code, 201, "{made:?}");
            eventually(DEADLINE, "the kind to be served", async || {
                let listed = plane.ask("GET", path, &Value::Null).await?;
                ensure!(listed.code == 200, "{listed:?}");
                Ok(())
            })
            .await
            .unwrap();
        }
    }

    /// Waits until neither plane takes an object.
    pub(crate) async fn refuses(&self, path: &str, object: &Value) {
        for plane in [&self.real, &self.embedded] {
            eventually(DEADLINE, "rules to be heeded", async || {
                let made = plane.ask("POST", path, object).await?;
                ensure!(made.code == 422, "{made:?}");
                Ok(())
            })
            .await
            .unwrap();
        }
    }

    /// First the real plane, then the embedded one.
    pub(crate) fn each(&self) -> [&Caller; 2] {
        [&self.real, &self.embedded]
    }

    /// What both answer to a request without placeholders: first the real plane, then the embedded one.
    pub(crate) async fn both(&self, request: &Request) -> [Answer; 2] {
        let [real, embedded] = [&self.real, &self.embedded].map(|plane| send(plane, request, "", ""));
        let (real, embedded) = tokio::join!(real, embedded);
        [real, embedded]
    }

    /// Plays a sequence on both planes, and says where they part.
    pub(crate) async fn first_difference(&self, kind: &TrialKind, sequence: &[Request]) -> Option<String> {
        let name = format!("x{}", self.played.fetch_add(1, Ordering::Relaxed));
        let mut versions = [String::from("1"), String::from("1")];
        let mut found = None;
        // What others own after a write of the scale is another story on the real plane.
        let scales = |request: &Request| request.method != "GET" && request.path.contains("/scale");
        let mut left_alone = kind.left_alone.to_vec();
        if sequence.iter().any(scales) {
            left_alone.extend(["managedFields", "causes", "message"]);
        }
        for request in sequence {
            let [real, embedded] = [(&self.real, &versions[0]), (&self.embedded, &versions[1])]
                .map(|(plane, version)| send(plane, request, &name, version));
            let (real, embedded) = tokio::join!(real, embedded);
            for (version, answer) in versions.iter_mut().zip([&real, &embedded]) {
                if let Some(seen) = answer.body["metadata"]["resourceVersion"].as_str() {
                    seen.clone_into(version);
                }
            }
            if kind.is_only_stored() && real.code == 422 {
                break;
            }
            found =
                same::difference(&real, &embedded, &left_alone).map(|what| format!("  at {request}\n{what}"));
            // When those are done who look after what belongs to a deleted object, is chance.
            if found.is_some() || !request.body["propagationPolicy"].is_null() {
                break;
            }
        }
        for plane in [&self.real, &self.embedded] {
            self.clean(plane, &name).await;
        }
        found
    }

    /// Takes away what a sequence has left, also what waits for a finalizer.
    async fn clean(&self, plane: &Caller, name: &str) {
        for kind in kinds::KINDS {
            let path = format!("{}/{name}", kind.path);
            let free = json!({"metadata": {"finalizers": null}});
            plane.ask("PATCH", &path, &free).await.unwrap();
            plane.ask("DELETE", &path, &Value::Null).await.unwrap();
        }
    }
}

async fn send(plane: &Caller, request: &Request, name: &str, version: &str) -> Answer {
    let filled = |text: &str| text.replace(NAME, name).replace(CURRENT, version);
    let body =
        if request.body.is_null() { Vec::new() } else { filled(&request.body.to_string()).into_bytes() };
    let user: Vec<_> = request.user.iter().map(|user| ("impersonate-user", *user)).collect();
    plane.send(request.method, &filled(&request.path), request.media, body, &user).await.unwrap()
}
