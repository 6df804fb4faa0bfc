//! Merges the configuration of a mutating policy into an object. The rules are those of a server-side apply, without
//! owners: nothing is removed, and nothing conflicts. What is atomic cannot be set, because it would be replaced.

use crate::shape::{Shape, Type};
use crate::walk::{conform, merge::merge};
use serde_json::Value;

/// Why a configuration was not merged; the messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// It does not match the schema of the kind.
    #[error("failed to convert patch object to typed object: {0}")]
    Patch(String),
    /// It sets what is atomic. The text has the paths.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {0}")]
    Atomic(String),
    /// The object does not match the schema of its kind.
    #[error("failed to convert original object to typed object: {0}")]
    Live(String),
}

/// The object with what the configuration sets.
///
/// # Errors
/// If one of the two does not match the schema, or the configuration sets something atomic.
pub fn merge_configuration(
    shape: &Shape,
    live: &Value,
    configuration: &Value,
) -> Result<Value, ConfigurationError> {
    let ty = &shape.root;
    conform::check(ty, configuration, false).map_err(ConfigurationError::Patch)?;
    let mut atomics = Vec::new();
    find_atomics(ty, configuration, &mut String::new(), &mut atomics);
    if !atomics.is_empty() {
        return Err(ConfigurationError::Atomic(atomics.join(", ")));
    }
    conform::check(ty, live, true).map_err(ConfigurationError::Live)?;
    Ok(merge(ty, live, configuration))
}

/// Collects the paths of what is atomic, in the fields that the schema names.
fn find_atomics(ty: &Type, value: &Value, at: &mut String, found: &mut Vec<String>) {
    let (atom, end) = (ty.atom(), at.len());
    match (value, &atom.map, &atom.list) {
        (Value::Object(fields), Some(map), _) => {
            if map.atomic {
                found.push(at.clone());
            }
            for (name, value) in fields {
                // As upstream: what is under names of its own is not looked at.
                let Some(field) = map.fields.get(name) else { continue };
                at.push('.');
                at.push_str(name);
                find_atomics(&field.ty, value, at, found);
                at.truncate(end);
            }
        }
        (Value::Array(items), _, Some(list)) => {
            if list.atomic {
                found.push(at.clone());
            }
            for (index, item) in items.iter().enumerate() {
                at.push_str(&format!("[{index}]"));
                find_atomics(&list.items, item, at, found);
                at.truncate(end);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(live: &Value, configuration: &Value) -> Result<Value, String> {
        let text = json!({"type": "string"});
        let part = json!({"type": "object", "required": ["name"], "properties": {
            "name": text, "count": {"type": "integer"}, "args": {"type": "array", "items": text},
        }});
        let shape = Shape::new(Some(&json!({"type": "object", "properties": {"spec": {
            "type": "object", "properties": {
                "replicas": {"type": "integer"}, "labels": {"type": "object", "additionalProperties": text},
                "list": {"type": "array", "items": text},
                "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
                "parts": {
                    "type": "array", "items": part, "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text}},
            },
        }}})));
        let with_spec = |spec: &Value| json!({"apiVersion": "g/v1", "kind": "K", "spec": spec});
        let merged = merge_configuration(&shape, &with_spec(live), &with_spec(configuration));
        merged.map(|mut merged| merged["spec"].take()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_configuration_is_merged_by_the_schema() {
        let cases = [
            (json!({"replicas": 1}), json!({"replicas": 3}), json!({"replicas": 3})),
            (
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"b": "2"}}),
                json!({"labels": {"a": "1", "b": "2"}}),
            ),
            (json!({"set": ["a", "b"]}), json!({"set": ["b", "c"]}), json!({"set": ["a", "b", "c"]})),
            (
                json!({"parts": [{"name": "a", "count": 1}, {"name": "b"}]}),
                json!({"parts": [{"name": "b", "count": 2}, {"name": "c"}]}),
                json!({"parts": [{"name": "a", "count": 1}, {"name": "b", "count": 2}, {"name": "c"}]}),
            ),
            // An object may be there already that repeats an entry.
            (
                json!({"parts": [{"name": "a", "count": 1}, {"name": "a", "count": 2}]}),
                json!({"replicas": 1}),
                json!({"parts": [{"name": "a", "count": 1}, {"name": "a", "count": 2}], "replicas": 1}),
            ),
            (
                json!({"list": ["a"], "whole": {"a": "1"}}),
                json!({}),
                json!({"list": ["a"], "whole": {"a": "1"}}),
            ),
        ];
        for (live, configuration, expected) in cases {
            assert_eq!(merged(&live, &configuration), Ok(expected), "{live} {configuration}");
        }
    }

    #[test]
    fn what_is_atomic_or_unknown_is_rejected() {
        let live = json!({"list": ["a"]});
        let atomic = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ";
        let cases = [
            (json!({"list": ["a"]}), format!("{atomic}.spec.list")),
            (json!({"whole": {"a": "1"}}), format!("{atomic}.spec.whole")),
            (json!({"parts": [{"name": "a", "args": []}]}), format!("{atomic}.spec.parts[0].args")),
            (
                json!({"list": [], "whole": {}, "replicas": 1}),
                format!("{atomic}.spec.list, .spec.whole"),
            ),
            (
                json!({"nope": 1}),
                "failed to convert patch object to typed object: .spec.nope: field not declared in schema".to_string(),
            ),
            (
                json!({"replicas": "x"}),
                "failed to convert patch object to typed object: .spec.replicas: expected numeric (int or float), got \
                 string"
                    .to_string(),
            ),
        ];
        for (configuration, expected) in cases {
            assert_eq!(merged(&live, &configuration), Err(expected), "{configuration}");
        }
        let wrong = merged(&json!({"replicas": "x"}), &json!({"replicas": 1})).unwrap_err();
        assert!(
            wrong.starts_with("failed to convert original object to typed object: .spec.replicas: "),
            "{wrong}"
        );
    }
}
