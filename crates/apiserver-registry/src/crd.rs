//! Parts of a CustomResourceDefinition.

use serde_json::Value;

use crate::object;

/// Whether the CRD is being served.
pub(crate) fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        object::text(condition, &["type"]) == "Established" && object::text(condition, &["status"]) == "True"
    })
}

/// The versions of a CRD.
pub(super) fn versions(crd: &Value) -> &[Value] {
    object::at(crd, &["spec", "versions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
