//! Patches that an extension answers with: which changes it could make. Pure.

use capstan_api::runtime::hooks::{Patch, PatchType};
use serde_json::Value;

/// A patch that cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PatchError {
    /// The patch cannot be parsed.
    #[error("the patch is not a {0}")]
    Malformed(&'static str, #[source] serde_json::Error),
    /// The patch cannot be applied to the object.
    #[error("the patch does not fit the object")]
    Unfit(#[from] json_patch::PatchError),
}

/// The object after the patch. Only the value at `pointer` counts.
pub(crate) fn applied(object: &Value, patch: Option<&Patch>, pointer: &str) -> Result<Value, PatchError> {
    let mut patched = object.clone();
    let Some(patch) = patch.filter(|patch| !patch.patch.0.is_empty()) else { return Ok(patched) };
    match patch.patch_type {
        PatchType::JSONPatch => {
            let operations: json_patch::Patch = serde_json::from_slice(&patch.patch.0)
                .map_err(|error| PatchError::Malformed("JSON patch", error))?;
            json_patch::patch(&mut patched, &operations)?;
        }
        PatchType::JSONMergePatch => {
            let fields: Value = serde_json::from_slice(&patch.patch.0)
                .map_err(|error| PatchError::Malformed("JSON merge patch", error))?;
            json_patch::merge(&mut patched, &fields);
        }
    }
    let mut result = object.clone();
    if let Some(counts) = patched.pointer(pointer) {
        put(&mut result, pointer, counts.clone());
    }
    Ok(result)
}

/// Puts a value at a place, and objects around it where there are none.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for key in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = Value::Object(serde_json::Map::new());
        }
        place = &mut place[key];
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;
    use serde_json::json;

    const SPEC: &str = "/spec/template/spec";

    fn patch(patch_type: PatchType, patch: &Value) -> Patch {
        Patch { patch_type, patch: ByteString(patch.to_string().into_bytes()) }
    }

    #[test]
    fn both_forms_lead_to_the_same() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"x": 1, "y": 2}}}});
        let wanted = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"x": 3}}}});
        for patch in [
            patch(
                PatchType::JSONPatch,
                &json!([{"op": "replace", "path": "/spec/template/spec", "value": {"x": 3}}]),
            ),
            patch(PatchType::JSONMergePatch, &json!({"spec": {"template": {"spec": {"x": 3, "y": null}}}})),
        ] {
            assert_eq!(applied(&object, Some(&patch), SPEC).expect("applies"), wanted);
        }
        assert_eq!(applied(&object, None, SPEC).expect("applies"), object);
        let empty = Patch { patch_type: PatchType::JSONMergePatch, patch: ByteString(vec![]) };
        assert_eq!(applied(&object, Some(&empty), SPEC).expect("applies"), object);
    }

    #[test]
    fn only_the_spec_counts() {
        let object = json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}});
        let greedy =
            json!({"metadata": {"name": "b"}, "spec": {"replicas": 9, "template": {"spec": {"x": 1}}}});
        let after =
            applied(&object, Some(&patch(PatchType::JSONMergePatch, &greedy)), SPEC).expect("applies");
        let expected =
            json!({"metadata": {"name": "a"}, "spec": {"replicas": 1, "template": {"spec": {"x": 1}}}});
        assert_eq!(after, expected);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let object = json!({"spec": {}});
        let unfit = patch(PatchType::JSONPatch, &json!([{"op": "replace", "path": "/a/b", "value": 1}]));
        assert!(matches!(applied(&object, Some(&unfit), SPEC), Err(PatchError::Unfit(_))));
        let malformed = patch(PatchType::JSONPatch, &json!({"not": "a list"}));
        assert!(matches!(applied(&object, Some(&malformed), SPEC), Err(PatchError::Malformed(..))));
    }
}
