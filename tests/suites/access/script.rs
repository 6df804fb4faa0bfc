//! A script: requests one after the other, and what was answered.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan_testkit::eventually;
use capstan_tests::{Caller, Credential, Place};
use serde_json::{Value, json};

/// Rights and tokens are cached by a real API server for some seconds.
const DEADLINE: Duration = Duration::from_secs(60);
/// The plane that must answer rightly at once.
pub(crate) const EMBEDDED: &str = "embedded";

pub(crate) const NAMESPACE: &str = "yard";

/// What is played on one plane.
pub(crate) struct Script {
    plane: &'static str,
    pub(crate) place: Place,
    pub(crate) admin: Caller,
    pub(crate) admin_kubeconfig: PathBuf,
    transcript: Vec<String>,
}

impl Script {
    pub(crate) async fn new(plane: &'static str, kubeconfig: &Path) -> Result<Self> {
        let place = Place::of(kubeconfig)?;
        let admin = place.admin().await?;
        let script =
            Self { plane, place, admin, admin_kubeconfig: kubeconfig.to_owned(), transcript: Vec::new() };
        script.make("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await;
        Ok(script)
    }

    pub(crate) fn into_transcript(self) -> Vec<String> {
        self.transcript
    }

    /// Somebody with a credential.
    pub(crate) async fn with(&self, credential: Credential<'_>) -> Caller {
        self.place.with(credential).await.unwrap()
    }

    /// Makes an object as the administrator; gives it.
    pub(crate) async fn make(&self, path: &str, body: Value) -> Value {
        let answer = self.admin.ask("POST", path, &body).await.unwrap();
        assert_eq!(answer.code, 201, "{}: POST {path}: {}", self.plane, answer.body);
        answer.body
    }

    /// Deletes an object as the administrator.
    pub(crate) async fn remove(&self, path: &str) {
        let answer = self.admin.ask("DELETE", path, &Value::Null).await.unwrap();
        assert_eq!(answer.code, 200, "{}: DELETE {path}: {}", self.plane, answer.body);
    }

    /// Asks until the answer has this code, and notes what else it says. The embedded plane is asked once. `line` is method
    /// and path.
    pub(crate) async fn expect(&mut self, code: u16, who: &Caller, line: &str, body: Value) -> Value {
        self.expect_as(code, who, line, body, &[]).await
    }

    /// The same with further headers.
    pub(crate) async fn expect_as(
        &mut self,
        code: u16,
        who: &Caller,
        line: &str,
        body: Value,
        headers: &[(&str, &str)],
    ) -> Value {
        let (method, path) = line.split_once(' ').unwrap();
        let what = format!("{}: {line} {headers:?} to be answered with {code}", self.plane);
        let ask = async || {
            let answer = who.ask_as(method, path, &body, headers).await?;
            ensure!(answer.code == code, "{answer:?}");
            Ok(answer)
        };
        let answer = match self.plane {
            EMBEDDED => ask().await.context(what),
            _ => eventually(DEADLINE, &what, ask).await,
        };
        let answer = answer.unwrap();
        let text = |field: &str| answer.body[field].as_str().unwrap_or_default().to_owned();
        let said = if answer.body["kind"] == "Status" {
            text("reason") + " " + &text("message")
        } else {
            String::new()
        };
        self.note(line, &format!("{code} {said}"));
        answer.body
    }

    /// Notes something that must be the same on both planes.
    pub(crate) fn note(&mut self, what: &str, said: &str) {
        let said = said.lines().map(without_ids).collect::<Vec<_>>().join("|");
        self.transcript.push(format!("{what}: {}", said.trim()));
    }
}

/// Without what is made at random: UIDs, in whose place stands a word.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| {
        word.len() == 36
            && word.chars().enumerate().all(|(at, c)| match at {
                8 | 13 | 18 | 23 => c == '-',
                _ => c.is_ascii_hexdigit(),
            })
    };
    text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .map(|word| match word.get(..36).filter(|id| is_id(id)) {
            Some(id) => word.replace(id, "<uid>"),
            None => word.to_owned(),
        })
        .collect()
}

/// A path in the namespace of the script.
pub(crate) fn core(path: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{path}")
}

/// The same of RBAC.
pub(crate) fn rbac(path: &str) -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/{path}")
}

/// A role in the namespace.
pub(crate) fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

/// A binding in the namespace, of a kind of role to a subject.
pub(crate) fn binding(name: &str, kind: &str, role: &str, subject: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [subject],
    })
}

/// A service account as a subject.
pub(crate) fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE})
}
