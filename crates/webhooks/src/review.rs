//! `AdmissionReview`: what an API server asks, and the answer. No I/O.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_admission::{Kind, Operation, Rejection, Write};
use serde_json::{Value, json};

use crate::rejection::status;

const API_VERSION: &str = "admission.k8s.io/v1";

/// The question of an API server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    uid: String,
    kind: Kind,
    operation: Operation,
    name: String,
    old: Option<Value>,
    new: Option<Value>,
}

/// Why a review is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReviewError {
    #[error("the request is not an AdmissionReview of {API_VERSION}")]
    NotAReview,
    #[error("the request has no {0}")]
    Missing(&'static str),
    #[error("the webhook is for {expected}, not for {found}")]
    OtherKind { expected: String, found: String },
    #[error("the webhook is not for the operation {0:?}")]
    OtherOperation(String),
}

impl Question {
    /// Reads a review that was sent to the webhook of a kind.
    pub(crate) fn read(kind: Kind, review: &Value) -> Result<Self, ReviewError> {
        let is = |field: &str, expected: &str| review.get(field).is_some_and(|value| value == expected);
        if !is("apiVersion", API_VERSION) || !is("kind", "AdmissionReview") {
            return Err(ReviewError::NotAReview);
        }
        let request = review.get("request").ok_or(ReviewError::Missing("request"))?;
        let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let uid = text("/uid").to_owned();
        if uid.is_empty() {
            return Err(ReviewError::Missing("uid"));
        }
        let shown = |group: &str, version: &str, kind: &str| format!("{kind}.{version}.{group}");
        let expected = shown(kind.group(), capstan_admission::kind::VERSION, kind.name());
        let found = shown(text("/kind/group"), text("/kind/version"), text("/kind/kind"));
        if found != expected {
            return Err(ReviewError::OtherKind { expected, found });
        }
        let operation = text("/operation");
        let operation =
            Operation::parse(operation).ok_or_else(|| ReviewError::OtherOperation(operation.to_owned()))?;
        let object = |field: &str| request.get(field).filter(|object| !object.is_null()).cloned();
        let (old, new) = (object("oldObject"), object("object"));
        let (needs_old, needs_new) = (operation != Operation::Create, operation != Operation::Delete);
        if needs_old && old.is_none() {
            return Err(ReviewError::Missing("oldObject"));
        }
        if needs_new && new.is_none() {
            return Err(ReviewError::Missing("object"));
        }
        Ok(Self { uid, kind, operation, name: text("/name").to_owned(), old, new })
    }

    /// The write that is asked about.
    pub(crate) fn write(&self) -> Write<'_> {
        Write { kind: self.kind, operation: self.operation, old: self.old.as_ref(), new: self.new.as_ref() }
    }

    /// The answer of a mutating webhook.
    pub(crate) fn mutated(&self, result: Result<(Option<Value>, Vec<String>), Rejection>) -> Value {
        let (changed, warnings) = match result {
            Ok(mutated) => mutated,
            Err(rejection) => return self.denied(&rejection),
        };
        let mut response = self.allowed(&warnings);
        if let (Some(changed), Some(new)) = (changed, &self.new) {
            let mut steps = Vec::new();
            difference(new, &changed, "", &mut steps);
            if !steps.is_empty() {
                response["response"]["patchType"] = "JSONPatch".into();
                response["response"]["patch"] =
                    BASE64_STANDARD.encode(Value::Array(steps).to_string()).into();
            }
        }
        response
    }

    /// The answer of a validating webhook.
    pub(crate) fn validated(&self, result: Result<Vec<String>, Rejection>) -> Value {
        match result {
            Ok(warnings) => self.allowed(&warnings),
            Err(rejection) => self.denied(&rejection),
        }
    }

    fn allowed(&self, warnings: &[String]) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": true});
        if !warnings.is_empty() {
            response["warnings"] = json!(warnings);
        }
        json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
    }

    fn denied(&self, rejection: &Rejection) -> Value {
        let status = status(self.kind, &self.name, rejection);
        let response = json!({"uid": self.uid, "allowed": false, "status": status});
        json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
    }
}

/// The steps of a JSON patch. Lists are replaced whole, unless they have the same length.
fn difference(from: &Value, to: &Value, path: &str, steps: &mut Vec<Value>) {
    match (from, to) {
        (Value::Object(old), Value::Object(new)) => {
            for field in old.keys().filter(|field| !new.contains_key(*field)) {
                steps.push(json!({"op": "remove", "path": below(path, field)}));
            }
            for (field, value) in new {
                let path = below(path, field);
                match old.get(field) {
                    Some(before) => difference(before, value, &path, steps),
                    None => steps.push(json!({"op": "add", "path": path, "value": value})),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (i, (old, new)) in old.iter().zip(new).enumerate() {
                difference(old, new, &format!("{path}/{i}"), steps);
            }
        }
        _ if from == to => {}
        _ => steps.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

fn below(path: &str, field: &str) -> String {
    format!("{path}/{}", field.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(change: &Value) -> Value {
        let mut review = json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "Machine"},
            "operation": "UPDATE", "name": "a", "object": {"spec": {}}, "oldObject": {"spec": {}},
        }});
        for (field, value) in change.as_object().into_iter().flatten() {
            review["request"][field] = value.clone();
        }
        review
    }

    #[test]
    fn only_reviews_of_the_kind_are_answered() {
        let question = Question::read(Kind::Machine, &review(&json!({}))).expect("a question");
        assert_eq!(question.operation, Operation::Update);
        let create = json!({"operation": "CREATE", "oldObject": null});
        assert!(Question::read(Kind::Machine, &review(&create)).expect("a question").old.is_none());
        for (change, expected) in [
            (json!({"uid": ""}), "uid"),
            (json!({"object": null}), "object"),
            (json!({"oldObject": null}), "oldObject"),
            (json!({"operation": "CONNECT"}), "CONNECT"),
            (
                json!({"kind": {"group": "cluster.x-k8s.io", "version": "v1beta1", "kind": "Machine"}}),
                "v1beta1",
            ),
        ] {
            let error = Question::read(Kind::Machine, &review(&change)).expect_err("an error").to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Question::read(Kind::Cluster, &review(&json!({}))).is_err());
        assert_eq!(Question::read(Kind::Machine, &json!([])), Err(ReviewError::NotAReview));
    }

    #[test]
    fn a_patch_makes_one_object_of_the_other() {
        let from = json!({"a": {"x/y": 1, "gone": 2}, "list": [1, {"b": 2}], "short": [1], "same": [1]});
        let to = json!({"a": {"x/y": 3, "m~n": {}}, "list": [1, {"b": 3}], "short": [1, 2], "same": [1]});
        let mut steps = Vec::new();
        difference(&from, &to, "", &mut steps);
        assert_eq!(
            Value::Array(steps),
            json!([
                {"op": "remove", "path": "/a/gone"},
                {"op": "replace", "path": "/a/x~1y", "value": 3},
                {"op": "add", "path": "/a/m~0n", "value": {}},
                {"op": "replace", "path": "/list/1/b", "value": 3},
                {"op": "replace", "path": "/short", "value": [1, 2]},
            ])
        );
    }

    #[test]
    fn answers_have_a_patch_warnings_or_a_status() {
        let question = Question::read(Kind::Machine, &review(&json!({}))).expect("a question");
        let unchanged = question.mutated(Ok((None, vec!["w".to_owned()])));
        assert_eq!(unchanged["response"], json!({"uid": "u", "allowed": true, "warnings": ["w"]}));
        let changed = question.mutated(Ok((Some(json!({"spec": {"a": 1}})), Vec::new())));
        let patch = BASE64_STANDARD.decode(changed["response"]["patch"].as_str().expect("a patch"));
        let patch: Value = serde_json::from_slice(&patch.expect("base64")).expect("JSON");
        assert_eq!(patch, json!([{"op": "add", "path": "/spec/a", "value": 1}]));
        let denied = question.validated(Err(Rejection::Forbidden("in use".to_owned())));
        assert_eq!(denied["response"]["allowed"], false);
        assert_eq!(denied["response"]["status"]["code"], 403);
    }
}
