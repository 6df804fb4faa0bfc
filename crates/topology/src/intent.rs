//! What the topology writes of an object: the body of its server-side apply.

use crate::object;
use serde_json::{Value, json};

/// The field manager of the topology.
pub const FIELD_MANAGER: &str = "capi-topology";

/// Fields that the topology writes; other fields of an object belong to others.
const WRITTEN: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    object::LABELS,
    object::ANNOTATIONS,
    object::OWNERS,
    &["spec"],
];

/// The fields of an object that the topology writes. An empty endpoint in a template is left out: the provider sets it.
pub fn intent(object: &Value) -> Value {
    let mut written = json!({});
    for path in WRITTEN {
        object::set_some(&mut written, path, object::get(object, path).cloned());
    }
    for (field, empty) in [("host", json!("")), ("port", json!(0))] {
        let path = ["spec", "controlPlaneEndpoint", field];
        if object::get(&written, &path) == Some(&empty) {
            object::remove(&mut written, &path);
        }
    }
    let endpoint = ["spec", "controlPlaneEndpoint"];
    if object::get(&written, &endpoint).is_some_and(object::is_empty) {
        object::remove(&mut written, &endpoint);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_and_an_empty_endpoint_are_not_written() {
        let object = json!({
            "apiVersion": "v1", "kind": "K",
            "metadata": {"name": "n", "generation": 2, "labels": {"a": "b"}, "managedFields": []},
            "spec": {"controlPlaneEndpoint": {"host": "", "port": 0}, "x": 1},
            "status": {"ready": true},
        });
        assert_eq!(
            intent(&object),
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"x": 1}})
        );
        let set = json!({"spec": {"controlPlaneEndpoint": {"host": "h", "port": 0}}});
        assert_eq!(intent(&set)["spec"], json!({"controlPlaneEndpoint": {"host": "h"}}));
    }
}
