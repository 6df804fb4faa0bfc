//! Cells of the built-in kinds' tables that are more than a field.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    certificates, object,
    table::age::{duration, human},
};

/// How many webhooks a configuration has.
pub(crate) fn webhooks(configuration: &Value, _: Timestamp) -> Value {
    configuration.get("webhooks").and_then(Value::as_array).map_or(0, Vec::len).into()
}

/// How long ago it was made.
pub(crate) fn age(value: &Value, now: Timestamp) -> Value {
    human(object::meta_str(value, "creationTimestamp"), now).into()
}

pub(crate) fn data_count(value: &Value, _: Timestamp) -> Value {
    let count = |field| value.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    (count("data") + count("binaryData")).into()
}

pub(crate) fn event_last_seen(event: &Value, now: Timestamp) -> Value {
    let times = ["lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp"];
    let seen = times.iter().map(|field| object::text(event, &[field])).find(|time| !time.is_empty());
    human(seen.unwrap_or_else(|| object::meta_str(event, "creationTimestamp")), now).into()
}

pub(crate) fn event_object(event: &Value, _: Timestamp) -> Value {
    let object = event.get("involvedObject").or_else(|| event.get("regarding")).unwrap_or(&Value::Null);
    let (kind, name) = (object::text(object, &["kind"]), object::text(object, &["name"]));
    format!("{}/{name}", kind.to_lowercase()).into()
}

pub(crate) fn event_message(event: &Value, _: Timestamp) -> Value {
    let message = event.get("message").or_else(|| event.get("note")).and_then(Value::as_str);
    message.unwrap_or_default().trim().into()
}

pub(crate) fn node_status(node: &Value, _: Timestamp) -> Value {
    let conditions = object::at(node, &["status", "conditions"]).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|c| object::text(c, &["type"]) == "Ready");
    let mut words = match ready.map(|ready| object::text(ready, &["status"])) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object::at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        words.push_str(",SchedulingDisabled");
    }
    words.into()
}

pub(crate) fn node_roles(node: &Value, _: Timestamp) -> Value {
    let labels = object::at(node, &["metadata", "labels"]).and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    if roles.is_empty() { "<none>".into() } else { roles.join(",").into() }
}

fn containers(pod: &Value) -> &[Value] {
    object::at(pod, &["status", "containerStatuses"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn pod_ready(pod: &Value, _: Timestamp) -> Value {
    let ready = containers(pod).iter().filter(|c| c.get("ready") == Some(&Value::Bool(true))).count();
    let total = object::at(pod, &["spec", "containers"]).and_then(Value::as_array).map_or(0, Vec::len);
    format!("{ready}/{total}").into()
}

pub(crate) fn pod_status(pod: &Value, _: Timestamp) -> Value {
    if object::is_terminating(pod) {
        "Terminating".into()
    } else {
        object::text(pod, &["status", "phase"]).into()
    }
}

pub(crate) fn pod_restarts(pod: &Value, _: Timestamp) -> Value {
    let restarts: i64 = containers(pod).iter().filter_map(|c| c.get("restartCount")?.as_i64()).sum();
    restarts.to_string().into()
}

pub(crate) fn deployment_ready(deployment: &Value, _: Timestamp) -> Value {
    let number = |path: &[&str]| object::at(deployment, path).and_then(Value::as_i64).unwrap_or(0);
    json!(format!("{}/{}", number(&["status", "readyReplicas"]), number(&["spec", "replicas"])))
}

pub(crate) fn role_ref(binding: &Value, _: Timestamp) -> Value {
    let part = |field| object::text(binding, &["roleRef", field]);
    format!("{}/{}", part("kind"), part("name")).into()
}

pub(crate) fn request_life(request: &Value, _: Timestamp) -> Value {
    let seconds = object::at(request, &["spec", "expirationSeconds"]).and_then(Value::as_i64);
    seconds.map_or_else(|| "<none>".to_owned(), duration).into()
}

pub(crate) fn request_condition(request: &Value, _: Timestamp) -> Value {
    let has = |kind| certificates::has(request, kind);
    let mut words = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_owned();
    if has("Failed") {
        words.push_str(",Failed");
    }
    if certificates::is_issued(request) {
        words.push_str(",Issued");
    }
    words.into()
}
