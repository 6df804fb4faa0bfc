//! Functions to inspect objects of any kind.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;

/// An API for the objects of a kind in a namespace, without a Rust type: upstream's kinds have none here.
pub fn namespaced(
    client: &kube::Client,
    namespace: &str,
    group_version: &str,
    kind: &str,
) -> Api<DynamicObject> {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

fn conditions(object: &DynamicObject) -> &[Value] {
    object.data.pointer("/status/conditions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The status of a condition, if the object has it.
pub fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a str> {
    conditions(object).iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// A summary of the conditions that are not true, for the error of a wait.
pub fn not_true(object: &DynamicObject) -> String {
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let lines: Vec<_> = conditions(object)
        .iter()
        .filter(|condition| condition["status"] != "True")
        .map(|c| {
            format!("{}={} {} {}", text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message"))
        })
        .collect();
    if lines.is_empty() { "no conditions that are not true".to_owned() } else { lines.join("; ") }
}
