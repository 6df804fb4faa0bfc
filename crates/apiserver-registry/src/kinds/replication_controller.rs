//! ReplicationControllers. They are only stored: no controller makes pods of them.

use serde_json::{Value, json};

use super::{
    super::Rules,
    core::{default_pods, default_to, object_in},
};
use crate::{object, status::Cause};

const STATUS_COUNTS: [&str; 5] =
    ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];

pub(crate) const REPLICATION_CONTROLLER: Rules = Rules {
    default,
    // The count is always there.
    on_create: |controller, _| controller["status"] = json!({"replicas": 0}),
    validate: |controller, _| invalid_spec(controller.get("spec").unwrap_or(&Value::Null)),
    validate_status: |controller, _| invalid_status(controller.get("status").unwrap_or(&Value::Null)),
    blank: || json!({"spec": {}, "status": {"replicas": 0}}),
    generation: true,
    ..Rules::PLAIN
};

fn is_empty(labels: Option<&Value>) -> bool {
    labels.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
}

/// The labels of the pods are the selector and the labels of the controller, unless it has others.
fn default(controller: &mut Value) {
    let labels = object::at(controller, &["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels) = labels.filter(Value::is_object) {
        if is_empty(object::at(controller, &["metadata", "labels"])) {
            object::metadata_mut(controller).insert("labels".to_owned(), labels.clone());
        }
        if is_empty(object::at(controller, &["spec", "selector"]))
            && let Some(spec) = object_in(controller, "spec")
        {
            spec["selector"] = labels;
        }
    }
    let Some(spec) = object_in(controller, "spec") else { return };
    default_to(spec, "replicas", 1.into());
    let template = spec.get_mut("template").and_then(|template| template.get_mut("spec"));
    if let Some(pods) = template.filter(|pods| pods.is_object()) {
        default_pods(pods);
    }
}

fn negative(value: &Value, at: &str, field: &str) -> Option<Cause> {
    let number = value.get(field).filter(|number| number.as_i64().is_some_and(|number| number < 0))?;
    Some(Cause::invalid(format!("{at}.{field}"), number, "must be greater than or equal to 0"))
}

fn invalid_spec(spec: &Value) -> Vec<Cause> {
    let mut causes: Vec<Cause> =
        ["minReadySeconds", "replicas"].iter().filter_map(|field| negative(spec, "spec", field)).collect();
    let selector = spec.get("selector").and_then(Value::as_object);
    if selector.is_none_or(serde_json::Map::is_empty) {
        causes.push(Cause::required("spec.selector", ""));
    }
    let Some(template) = spec.get("template").filter(|template| template.is_object()) else {
        causes.push(Cause::required("spec.template", ""));
        return causes;
    };
    let labels = object::at(template, &["metadata", "labels"]).unwrap_or(&Value::Null);
    if selector.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
        let detail = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, detail));
    }
    let policy = object::at(template, &["spec", "restartPolicy"]).unwrap_or(&Value::Null);
    if policy != "Always" {
        causes.push(Cause::unsupported("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
    if object::at(template, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| !seconds.is_null()) {
        let detail = "activeDeadlineSeconds in ReplicationController is not Supported";
        causes.push(Cause::forbidden("spec.template.spec.activeDeadlineSeconds", detail));
    }
    causes
}

fn invalid_status(status: &Value) -> Vec<Cause> {
    let count = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or(0);
    let mut causes: Vec<Cause> =
        STATUS_COUNTS.iter().filter_map(|field| negative(status, "status", field)).collect();
    let refuse =
        |field: &str, detail: &str| Cause::invalid(format!("status.{field}"), &count(field).into(), detail);
    for field in &STATUS_COUNTS[1..4] {
        if count(field) > count("replicas") {
            causes.push(refuse(field, "cannot be greater than status.replicas"));
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        causes.push(refuse("availableReplicas", "cannot be greater than readyReplicas"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(labels: &Value) -> Value {
        json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": "Always"}})
    }

    #[test]
    fn the_labels_of_the_pods_are_the_default_selector_and_labels() {
        let mut controller = json!({"metadata": {}, "spec": {"template": pods(&json!({"a": "b"}))}});
        default(&mut controller);
        assert_eq!(controller["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(controller["spec"]["selector"], json!({"a": "b"}));
        assert_eq!(controller["spec"]["replicas"], 1);
        assert_eq!(controller["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        let mut own = json!({
            "metadata": {"labels": {"x": "y"}}, "spec": {"replicas": 0, "selector": {"a": "b"}, "template": pods(&json!({"a": "b", "c": "d"}))},
        });
        default(&mut own);
        assert_eq!(
            (&own["metadata"]["labels"], &own["spec"]["selector"]),
            (&json!({"x": "y"}), &json!({"a": "b"}))
        );
        assert_eq!(own["spec"]["replicas"], 0);
    }

    #[test]
    fn specs_and_statuses_that_make_no_sense_are_rejected() {
        let fields = |causes: Vec<Cause>| causes.into_iter().map(|cause| cause.field).collect::<Vec<_>>();
        let spec = json!({"selector": {"a": "b"}, "template": pods(&json!({"a": "b"}))});
        assert_eq!(fields(invalid_spec(&spec)), [""; 0]);
        assert_eq!(
            fields(invalid_spec(&json!({"replicas": -1}))),
            ["spec.replicas", "spec.selector", "spec.template"]
        );
        let mut other = json!({"selector": {"a": "c"}, "template": pods(&json!({"a": "b"}))});
        other["template"]["spec"] = json!({"restartPolicy": "Never", "activeDeadlineSeconds": 1});
        let template = ["metadata.labels", "spec.restartPolicy", "spec.activeDeadlineSeconds"];
        assert_eq!(fields(invalid_spec(&other)), template.map(|field| format!("spec.template.{field}")));
        assert_eq!(fields(invalid_status(&json!({"replicas": 1, "readyReplicas": 1}))), [""; 0]);
        let status = json!({"replicas": 1, "readyReplicas": 0, "availableReplicas": 2});
        assert_eq!(fields(invalid_status(&status)), ["status.availableReplicas"; 2]);
    }
}
