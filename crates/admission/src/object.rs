//! Objects as JSON that no schema has checked.

use capstan_api::meta::labels;
use serde_json::{Map, Value};

/// What is at a path, unless it is null.
pub(crate) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |object, field| object.get(field)).filter(|value| !value.is_null())
}

/// The text at a path, or an empty one.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The map at a path, created if it is missing. Nothing if something else is in the way.
fn map<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut here = object;
    for field in path {
        let fields = here.as_object_mut()?;
        let next = fields.entry(*field).or_insert(Value::Null);
        if next.is_null() {
            *next = Value::Object(Map::new());
        }
        here = next;
    }
    here.as_object_mut()
}

/// Sets a field of the map at a path.
pub(crate) fn set(object: &mut Value, path: &[&str], field: &str, value: impl Into<Value>) {
    if let Some(map) = map(object, path) {
        map.insert(field.to_owned(), value.into());
    }
}

/// Sets a field of the map at a path, if it has no value.
pub(crate) fn set_default(object: &mut Value, path: &[&str], field: &str, value: impl Into<Value>) {
    let full: Vec<&str> = path.iter().copied().chain([field]).collect();
    if at(object, &full).is_none() {
        set(object, path, field, value);
    }
}

/// Sets the label with the name of the Cluster, as `spec.clusterName` has it.
pub(crate) fn set_cluster_label(object: &mut Value) {
    let cluster = text(object, &["spec", "clusterName"]).to_owned();
    if !cluster.is_empty() {
        set(object, &["metadata", "labels"], labels::CLUSTER_NAME, cluster);
    }
}

/// Gives a version its leading `v`.
pub(crate) fn set_version_prefix(object: &mut Value, path: &[&str], field: &str) {
    let full: Vec<&str> = path.iter().copied().chain([field]).collect();
    let version = text(object, &full);
    if !version.is_empty() && !version.starts_with('v') {
        let version = format!("v{version}");
        set(object, path, field, version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_another_shape_stays() {
        let mut object = json!({"spec": {"a": null, "b": "text"}});
        set_default(&mut object, &["spec", "a"], "x", 1);
        set_default(&mut object, &["spec", "a"], "x", 2);
        set_default(&mut object, &["spec", "b"], "x", 1);
        set_default(&mut object, &["spec"], "b", 1);
        assert_eq!(object, json!({"spec": {"a": {"x": 1}, "b": "text"}}));
        let mut list = json!([]);
        set(&mut list, &["metadata"], "x", 1);
        assert_eq!(list, json!([]));
    }
}
