//! What upstream's typed decoding makes of an object of a built-in kind: nulls and what is empty are left out, a null
//! in a list or a map is the zero of its type, and some times have a form of their own.

use serde_json::{Value, json};

/// Stands in a schema for a time to the microsecond. Not a format that any kube-apiserver knows, so CRDs cannot name it.
pub(crate) const MICRO_TIME: &str = "capstan-micro-time";

/// Makes of `value` what typed decoding would, or says what it stumbles over.
pub(crate) fn read(schema: &Value, value: &mut Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
                return fields.values_mut().try_for_each(|value| entry(inner, value));
            }
            // What the schema does not know is told, whatever it is.
            let known = schema.get("properties").and_then(Value::as_object);
            let is_unknown = |name: &str| known.is_some_and(|known| !known.contains_key(name));
            fields.retain(|name, value| !value.is_null() || is_unknown(name));
            for (name, value) in fields.iter_mut() {
                read(property(schema, name), value)?;
            }
            fields.retain(|name, value| {
                is_required(schema, name) || !is_omitted(property(schema, name), value)
            });
            Ok(())
        }
        Value::Array(items) => {
            let inner = schema.get("items").unwrap_or(&Value::Null);
            items.iter_mut().try_for_each(|item| entry(inner, item))
        }
        Value::String(text) if schema["format"] == MICRO_TIME => micro_time(text),
        _ => Ok(()),
    }
}

/// Reads what stands in a list or a map.
fn entry(schema: &Value, value: &mut Value) -> Result<(), String> {
    if value.is_null() {
        *value = match schema["type"].as_str() {
            Some("string") => "".into(),
            Some("integer" | "number") => 0.into(),
            Some("boolean") => false.into(),
            Some("object") => json!({}),
            _ => Value::Null,
        };
    }
    read(schema, value)
}

fn property<'a>(schema: &'a Value, name: &str) -> &'a Value {
    schema.get("properties").and_then(|properties| properties.get(name)).unwrap_or(&Value::Null)
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// Empty lists and maps are not written. Structures without fields are: they may be there on purpose.
fn is_omitted(schema: &Value, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() && schema.get("items").is_some(),
        Value::Object(fields) => fields.is_empty() && schema.get("additionalProperties").is_some(),
        _ => false,
    }
}

/// Six digits behind the seconds, neither fewer nor more.
fn micro_time(text: &str) -> Result<(), String> {
    const SECONDS: usize = "2006-01-02T15:04:05".len();
    let Some(rest) = text.get(SECONDS..) else { return Ok(()) };
    let digits = rest.strip_prefix('.').and_then(|rest| rest.get(..6));
    if digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Ok(());
    }
    Err(format!(
        "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest:?} as \".000000\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    fn read_as(group: &str, resource: &str, mut object: Value) -> Result<Value, String> {
        let registry = Registry::built_in();
        let schema = &registry.get(group, resource).unwrap().versions[0].schema;
        read(schema.shape(), &mut object).map(|()| object)
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let map = json!({"data": {}, "binaryData": null, "immutable": false});
        assert_eq!(read_as("", "configmaps", map).unwrap(), json!({"immutable": false}));
        let volumes = json!([{"name": "v", "emptyDir": {}}]);
        let pod = json!({"spec": {"volumes": volumes, "tolerations": [], "containers": []}});
        let read = read_as("", "pods", pod).unwrap();
        assert_eq!(read, json!({"spec": {"volumes": volumes, "containers": []}}));
    }

    #[test]
    fn a_null_in_a_map_or_a_list_is_a_zero() {
        let map = json!({"data": {"a": null}});
        assert_eq!(read_as("", "configmaps", map).unwrap(), json!({"data": {"a": ""}}));
        let role = json!({"rules": [{"verbs": [null]}]});
        let roles = "rbac.authorization.k8s.io";
        assert_eq!(read_as(roles, "roles", role).unwrap(), json!({"rules": [{"verbs": [""]}]}));
    }

    #[test]
    fn times_of_leases_have_microseconds() {
        let lease = |time: &str| json!({"spec": {"renewTime": time}});
        let read = |time: &str| read_as("coordination.k8s.io", "leases", lease(time));
        assert!(read("2026-01-01T00:00:00.123456Z").is_ok());
        assert!(read("2026-01-01T00:00:00.123456+01:00").is_ok());
        for wrong in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+01:00", "2026-01-01T00:00:00.12345Z"] {
            assert!(read(wrong).unwrap_err().contains("cannot parse"), "{wrong}");
        }
    }
}
