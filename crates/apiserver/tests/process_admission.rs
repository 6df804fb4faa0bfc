//! Admission by the process: what it sees, what it changes and rejects.

use std::sync::{Arc, Mutex};

use crate::support::{CRDS, MAPS, TestPlane, WIDGETS, map, widget, widgets};
use capstan_apiserver::{Admission, AdmissionRequest, ApiError, Mutated, Operation, Options, Storage};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// Sets `spec.replicas` of new Widgets and after an update what it was plus one; rejects large ones, and all deletions.
#[derive(Default)]
struct Widgets(Mutex<Vec<String>>);

impl Widgets {
    fn note(&self, phase: &str, request: &AdmissionRequest<'_>) {
        let AdmissionRequest { operation, group, version, kind, namespace, name, dry_run, .. } = request;
        let dry = if *dry_run { " dry" } else { "" };
        let line = format!("{phase} {} {group}/{version} {kind} {namespace}/{name}{dry}", operation.as_str());
        self.0.lock().unwrap().push(line);
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Admission for Widgets {
    fn mutates(&self, _: &str, kind: &str, operation: Operation) -> bool {
        kind == "Widget" && operation != Operation::Delete
    }

    fn validates(&self, _: &str, kind: &str, _: Operation) -> bool {
        kind == "Widget"
    }

    fn mutate<'a>(&'a self, request: AdmissionRequest<'a>) -> BoxFuture<'a, Result<Mutated, ApiError>> {
        async move {
            self.note("mutate", &request);
            let mut object = request.object.cloned().unwrap_or_default();
            let before = request.old.map_or(&Value::Null, |old| &old["spec"]["replicas"]);
            object["spec"]["replicas"] = (before.as_i64().unwrap_or_default() + 1).into();
            object["spec"]["unknown"] = true.into();
            Ok(Mutated { object: Some(object), warnings: vec!["counted".to_owned()] })
        }
        .boxed()
    }

    fn validate<'a>(&'a self, request: AdmissionRequest<'a>) -> BoxFuture<'a, Result<Vec<String>, ApiError>> {
        async move {
            self.note("validate", &request);
            let is_large = request.object.is_some_and(|object| object["spec"]["size"] == "L");
            if is_large || request.operation == Operation::Delete {
                let status =
                    json!({"code": 422, "reason": "Invalid", "message": "no", "details": {"name": "x"}});
                return Err(ApiError::from_status(&status));
            }
            Ok(Vec::new())
        }
        .boxed()
    }
}

async fn plane() -> (TestPlane, Arc<Widgets>) {
    let admission = Arc::new(Widgets::default());
    let mut options = Options::new(Storage::Memory);
    options.admission = Some(Arc::<Widgets>::clone(&admission));
    let plane = TestPlane::open(options).await;
    plane.admin.make(CRDS, &widgets()).await;
    (plane, admission)
}

#[tokio::test]
async fn writes_of_its_kinds_are_changed_and_rejected() {
    let (plane, admission) = plane().await;
    let response = plane.admin.send("POST", WIDGETS, "application/json", &widget("a", json!({}))).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["warning"]),
        (201, &"299 - \"counted\"".parse().unwrap())
    );
    let one = format!("{WIDGETS}/a");
    let (_, created) = plane.admin.get(&one).await;
    assert_eq!(created["spec"], json!({"replicas": 1}), "what the schema does not know is dropped");
    assert_eq!(
        admission.asked(),
        ["mutate CREATE example.com/v1 Widget default/a", "validate CREATE example.com/v1 Widget default/a",]
    );
    let (_, changed) = plane.admin.merge(&one, &json!({"spec": {"size": "S"}})).await;
    assert_eq!(changed["spec"], json!({"replicas": 2, "size": "S"}));
    let (code, rejected) = plane.admin.merge(&one, &json!({"spec": {"size": "L"}})).await;
    assert_eq!((code, &rejected["reason"], &rejected["message"]), (422, &json!("Invalid"), &json!("no")));
    assert_eq!(rejected["details"]["name"], "x");
    assert_eq!(plane.admin.delete(&one, &Value::Null).await.0, 422);
    assert_eq!(
        admission.asked().last().map(String::as_str),
        Some("validate DELETE example.com/v1 Widget default/a")
    );
    let (code, _) = plane.admin.post(&format!("{WIDGETS}?dryRun=All"), &widget("b", json!({}))).await;
    assert_eq!(code, 201);
    assert_eq!(admission.asked()[0], "mutate CREATE example.com/v1 Widget default/b dry");
}

#[tokio::test]
async fn other_kinds_and_subresources_are_not_seen() {
    let (plane, admission) = plane().await;
    plane.admin.make(MAPS, &map("m")).await;
    plane.admin.make(WIDGETS, &widget("a", json!({}))).await;
    admission.asked();
    let one = format!("{WIDGETS}/a");
    let (code, _) = plane.admin.merge(&format!("{one}/status"), &json!({"status": {"replicas": 1}})).await;
    assert_eq!(code, 200);
    let (code, _) = plane.admin.merge(&format!("{one}/scale"), &json!({"spec": {"replicas": 7}})).await;
    assert_eq!(code, 200);
    assert_eq!(plane.admin.get(&one).await.1["spec"]["replicas"], 7);
    assert!(admission.asked().is_empty());
}

#[tokio::test]
async fn the_schema_and_policies_judge_what_it_has_made() {
    let (plane, admission) = plane().await;
    let rule = json!({"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["widgets"]});
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.replicas < 2", "message": "too many"}],
    }});
    plane.admin.make(POLICIES, &policy).await;
    let binding =
        json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    plane
        .admin
        .make(&format!("{POLICIES}bindings").replace("policiesbindings", "policybindings"), &binding)
        .await;
    plane.admin.make(WIDGETS, &widget("a", json!({}))).await;
    admission.asked();
    let (code, rejected) = plane.admin.merge(&format!("{WIDGETS}/a"), &json!({"spec": {"size": "S"}})).await;
    assert!(code == 422 && rejected["message"].as_str().unwrap().contains("too many"), "{rejected}");
    let asked = admission.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("mutate UPDATE"), "policies come before: {asked:?}");
}
