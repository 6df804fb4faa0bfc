//! The scale subresource: another view of the replicas of an object.

use capstan_apiserver_schema::{ErrorKind, FieldError};
use serde_json::{Value, json};

use crate::{
    call::Call,
    object,
    registry::Scale,
    status::{ApiError, Cause, Result},
};

/// The version of every scale.
pub(crate) const API_VERSION: &str = "autoscaling/v1";

fn paths(call: &Call) -> Result<&Scale> {
    call.version.scale.as_ref().ok_or_else(ApiError::no_such_path)
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

/// The scale of an object.
pub(crate) fn show(call: &Call, object: &Value) -> Result<Value> {
    let paths = paths(call)?;
    let number = |path: &[String]| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let metadata = object::metadata(object);
    let mut kept = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.and_then(|metadata| metadata.get(field)) {
            kept.insert(field.to_owned(), value.clone());
        }
    }
    let mut scale = json!({
        "kind": "Scale", "apiVersion": API_VERSION, "metadata": kept,
        "spec": {}, "status": {"replicas": number(&paths.status_replicas)},
    });
    // None at all is not written there, as Go has it.
    let replicas = number(&paths.spec_replicas);
    if replicas != 0 {
        scale["spec"]["replicas"] = replicas.into();
    }
    let selector = match &paths.label_selector {
        Some(path) => at(object, path).and_then(Value::as_str).map(str::to_owned),
        None => match_labels(object),
    };
    if let Some(selector) = selector {
        scale["status"]["selector"] = selector.into();
    }
    Ok(scale)
}

/// Refuses to show a scale where there is none to show. Writing one is allowed nevertheless.
pub(crate) fn check_shown(call: &Call, object: &Value) -> Result<()> {
    let path = &paths(call)?.spec_replicas;
    if at(object, path).is_some() || !call.resource.is_custom() {
        return Ok(());
    }
    Err(ApiError::internal(&format!("the spec replicas field \".{}\" does not exist", path.join("."))))
}

fn match_labels(object: &Value) -> Option<String> {
    // The selector of a ReplicationController is just the labels.
    let path: &[&str] = match object::kind(object) {
        "ReplicationController" => &["spec", "selector"],
        _ => &["spec", "selector", "matchLabels"],
    };
    let labels = object::at(object, path)?.as_object()?;
    let terms: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    Some(terms.join(","))
}

/// What is wrong with the replicas in an object, whichever way they came there.
pub(crate) fn wrong_replicas(paths: &Scale, object: &Value) -> Vec<FieldError> {
    let wrong = |path: &[String]| {
        let (number, detail) = match whole_number(object, path) {
            Ok(number) if number < 0 => (number, "should be a non-negative integer".to_owned()),
            Ok(number) if number > i64::from(i32::MAX) => {
                (number, format!("should be less than or equal to {}", i32::MAX))
            }
            Ok(_) => return None,
            Err(detail) => (0, detail),
        };
        let path = format!(".{}", path.join("."));
        Some(FieldError { path, kind: ErrorKind::Invalid, bad_value: Some(number.into()), detail })
    };
    [&paths.spec_replicas, &paths.status_replicas].into_iter().filter_map(|path| wrong(path)).collect()
}

/// The number at a path, 0 if there is none, or why there cannot be one.
fn whole_number(object: &Value, path: &[String]) -> std::result::Result<i64, String> {
    let stumbled = |depth: usize, value: &Value, expected: &str| {
        let (path, shown, kind) = (path[..depth].join("."), go_text(value), go_type(value));
        format!(".{path} accessor error: {shown} is of the type {kind}, expected {expected}")
    };
    let mut value = object;
    for (depth, field) in path.iter().enumerate() {
        let Value::Object(fields) = value else {
            return Err(stumbled(depth + 1, value, "map[string]interface{}"));
        };
        let Some(inner) = fields.get(field) else { return Ok(0) };
        value = inner;
    }
    value.as_i64().ok_or_else(|| stumbled(path.len(), value, "int64"))
}

/// As Go's `%v` shows it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut shown: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}:{}", go_text(value))).collect();
            shown.sort();
            format!("map[{}]", shown.join(" "))
        }
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map(|number| number.to_string()).unwrap_or_default()
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn replicas(scale: &Value) -> i64 {
    object::at(scale, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0)
}

/// Refuses less than nothing. Custom resources are judged with their replicas in them.
pub(crate) fn check(call: &Call, scale: &Value) -> Result<()> {
    if replicas(scale) >= 0 || call.resource.is_custom() {
        return Ok(());
    }
    let detail = "must be greater than or equal to 0";
    let cause = Cause::invalid("spec.replicas", &replicas(scale).into(), detail);
    Err(ApiError::invalid("autoscaling", "Scale", &call.name, &[cause]))
}

/// The object with the replicas of a scale.
pub(crate) fn set(call: &Call, object: &Value, scale: &Value) -> Result<Value> {
    check(call, scale)?;
    let replicas = replicas(scale);
    let mut object = object.clone();
    put(&mut object, &paths(call)?.spec_replicas, replicas.into());
    match object::meta_str(scale, "resourceVersion") {
        "" => {}
        version => {
            object::metadata_mut(&mut object).insert("resourceVersion".to_owned(), version.into());
        }
    }
    Ok(object)
}

/// An applied scale as an object of which nothing is applied but its replicas.
pub(crate) fn as_applied(call: &Call, scale: &Value) -> Result<Value> {
    let (api_version, kind) = (object::api_version(scale), object::kind(scale));
    if (api_version, kind) != (API_VERSION, "Scale") {
        return Err(ApiError::bad_request(format!(
            "the kind in the data ({api_version}, Kind={kind}) does not match the expected kind ({API_VERSION}, Kind=Scale)"
        )));
    }
    let mut applied = json!({
        "apiVersion": call.api_version(), "kind": call.resource.kind,
        "metadata": scale.get("metadata").cloned().unwrap_or_else(|| json!({})),
    });
    if let Some(replicas) = object::at(scale, &["spec", "replicas"]) {
        put(&mut applied, &paths(call)?.spec_replicas, replicas.clone());
    }
    Ok(applied)
}

fn put(object: &mut Value, path: &[String], value: Value) {
    let mut place = object;
    for field in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[field];
    }
    *place = value;
}
