//! The rules of metadata, the same for every kind.

use capstan_apiserver_schema::OBJECT_META;
use serde_json::{Map, Value};

use crate::{
    call::Call,
    names::{is_word, name_error, qualified_name_error},
    object,
    status::Cause,
};

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// All annotations together.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

/// Drops what metadata does not have, and nulls; the paths of what was dropped, or what makes it unreadable.
pub(crate) fn prune(value: &mut Value) -> Result<Vec<String>, String> {
    if value.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        return Err("json: cannot unmarshal metadata into Go value of type v1.ObjectMeta".to_owned());
    }
    let metadata = object::metadata_mut(value);
    metadata.retain(|_, value| !value.is_null());
    let unknown: Vec<String> =
        metadata.keys().filter(|key| !OBJECT_META.contains(&key.as_str())).cloned().collect();
    for field in &unknown {
        metadata.shift_remove(field);
    }
    for field in ["name", "namespace", "generateName", "uid", "resourceVersion"] {
        match metadata.get(field) {
            Some(Value::String(text)) if text.is_empty() => drop(metadata.shift_remove(field)),
            None | Some(Value::String(_)) => {}
            Some(_) => return Err(wrong_type(field, "string")),
        }
    }
    for field in ["labels", "annotations"] {
        let texts = |map: &Map<String, Value>| map.values().all(|value| value.is_string() || value.is_null());
        match metadata.get_mut(field) {
            None => {}
            Some(Value::Object(map)) if texts(map) => {
                // Go reads a null as the empty string.
                map.values_mut().filter(|value| value.is_null()).for_each(|value| *value = "".into());
            }
            Some(_) => return Err(wrong_type(field, "string")),
        }
    }
    for field in ["finalizers", "ownerReferences", "managedFields"] {
        if metadata.get(field).is_some_and(|value| !value.is_array()) {
            return Err(wrong_type(field, "array"));
        }
    }
    let has_only = |field: &str, fits: fn(&Value) -> bool| {
        metadata.get(field).and_then(Value::as_array).is_none_or(|items| items.iter().all(fits))
    };
    if !has_only("finalizers", Value::is_string) {
        return Err(wrong_type("finalizers", "string"));
    }
    for field in ["ownerReferences", "managedFields"] {
        if !has_only(field, Value::is_object) {
            return Err(wrong_type(field, "object"));
        }
    }
    // Empty means absent, as Go's omitempty has it.
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = metadata.get(field).is_some_and(|value| match value {
            Value::Object(map) => map.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        });
        if empty {
            metadata.shift_remove(field);
        }
    }
    Ok(unknown.into_iter().map(|field| format!("metadata.{field}")).collect())
}

fn wrong_type(field: &str, kind: &str) -> String {
    format!("json: cannot unmarshal into Go struct field ObjectMeta.metadata.{field} of type {kind}")
}

/// What is allowed in an object's metadata and better avoided. Objects of built-in kinds are judged, not warned of.
pub(crate) fn warnings(call: &Call, object: &Value, old: Option<&Value>) -> Vec<String> {
    let before = old.map(object::finalizers).unwrap_or_default();
    let new = object::finalizers(object).into_iter().filter(|finalizer| !before.contains(finalizer));
    let plain = new.filter(|finalizer| !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer));
    let warn = |finalizer| {
        format!(
            "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name to avoid accidental \
             conflicts with other finalizer writers"
        )
    };
    plain.filter(|_| call.resource.is_custom()).map(warn).collect()
}

/// What is wrong with an object's metadata.
pub(crate) fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if old.is_none() {
        let name = object::name(object);
        if name.is_empty() {
            causes.push(Cause::required("metadata.name", "name or generateName is required"));
        } else if let Some(detail) = name_error(call.resource.rules.name, name) {
            causes.push(Cause::invalid("metadata.name", &name.into(), detail));
        }
    }
    if let Some(old) = old
        && object::uid(object) != object::uid(old)
    {
        causes.push(Cause::invalid("metadata.uid", &object::uid(object).into(), "field is immutable"));
    }
    let Some(metadata) = object::metadata(object) else { return causes };
    for (key, value) in entries(metadata, "labels") {
        if let Some(detail) = qualified_name_error(key) {
            causes.push(Cause::invalid("metadata.labels", &key.as_str().into(), &detail));
        }
        if !is_label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, LABEL_VALUE));
        }
    }
    let mut size = 0;
    for (key, value) in entries(metadata, "annotations") {
        size += key.len() + value.as_str().map_or(0, str::len);
        if let Some(detail) = qualified_name_error(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &key.as_str().into(), &detail));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        let message = format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes");
        causes.push(Cause {
            reason: "FieldValueTooLong".into(),
            field: "metadata.annotations".into(),
            message,
        });
    }
    for (index, finalizer) in object::finalizers(object).into_iter().enumerate() {
        if let Some(detail) = qualified_name_error(finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &finalizer.into(), &detail));
        }
        let standard = finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer);
        if !standard && !call.resource.is_custom() && call.resource.name.group().is_empty() {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), &finalizer.into(), detail));
        }
    }
    causes.extend(owner_errors(object));
    if let Some(old) = old.filter(|old| object::is_terminating(old)) {
        causes.extend(added_finalizers(object, old));
    }
    causes
}

fn entries<'a>(
    metadata: &'a Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    metadata.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn owner_errors(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut controllers = 0;
    for owner in object::owner_references(object) {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if object::text(owner, &[field]).is_empty() {
                // No index, as upstream.
                let path = format!("metadata.ownerReferences.{field}");
                let why =
                    if field == "apiVersion" { "version must not be empty" } else { "must not be empty" };
                causes.push(Cause::invalid(path, &"".into(), why));
            }
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let references = Value::Array(object::owner_references(object).to_vec());
        let detail = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid("metadata.ownerReferences", &references, detail));
    }
    causes
}

fn added_finalizers(object: &Value, old: &Value) -> Option<Cause> {
    let before = object::finalizers(old);
    let mut added: Vec<&str> =
        object::finalizers(object).into_iter().filter(|f| !before.contains(f)).collect();
    added.sort_unstable();
    let list: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        list.join(", ")
    );
    (!added.is_empty()).then(|| Cause::forbidden("metadata.finalizers", &detail))
}

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_label_value(text: &str) -> bool {
    text.len() <= 63 && (text.is_empty() || is_word(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::NameRule;

    #[test]
    fn names() {
        let fits = |rule, name| name_error(rule, name).is_none();
        assert!(fits(NameRule::Subdomain, "a.b-c.1"));
        assert!(
            !fits(NameRule::Subdomain, "a..b")
                && !fits(NameRule::Subdomain, "A")
                && !fits(NameRule::Subdomain, "-a")
        );
        assert!(fits(NameRule::Label, "a-b") && !fits(NameRule::Label, "a.b"));
        assert!(fits(NameRule::PathSegment, "system:x:Y") && !fits(NameRule::PathSegment, "a/b"));
        assert!(qualified_name_error("a.b/C_d").is_none() && qualified_name_error("a/b/c").is_some());
    }

    #[test]
    fn unknown_fields_are_dropped_and_empty_ones_absent() {
        let mut value =
            json!({"metadata": {"name": "a", "labels": {}, "foo": 1, "annotations": {"a": null}}});
        assert_eq!(prune(&mut value), Ok(vec!["metadata.foo".to_owned()]));
        assert_eq!(value, json!({"metadata": {"name": "a", "annotations": {"a": ""}}}));
        assert!(prune(&mut json!({"metadata": {"labels": {"a": 1}}})).is_err());
        assert!(prune(&mut json!({"metadata": {"finalizers": [["a"]]}})).is_err());
        assert!(prune(&mut json!({"metadata": {"ownerReferences": ["a"]}})).is_err());
    }

    #[test]
    fn no_finalizers_are_added_to_the_dying() {
        let old = json!({"metadata": {"finalizers": ["a"]}});
        assert!(added_finalizers(&json!({"metadata": {}}), &old).is_none());
        let cause = added_finalizers(&json!({"metadata": {"finalizers": ["a", "b"]}}), &old).unwrap();
        assert!(cause.message.ends_with(r#"found new finalizers []string{"b"}"#));
    }
}
