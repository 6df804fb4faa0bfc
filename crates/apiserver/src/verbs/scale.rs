//! The scale subresource: another view of the replicas of an object.

use serde_json::{Value, json};

use super::{Call, Outcome, update};
use crate::{
    object,
    registry::Scale,
    request::options::WriteOptions,
    status::{ApiError, Cause, Result},
};

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
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept,
        "spec": {"replicas": number(&paths.spec_replicas)}, "status": {"replicas": number(&paths.status_replicas)},
    });
    let selector = match &paths.label_selector {
        Some(path) => at(object, path).and_then(Value::as_str).map(str::to_owned),
        None => match_labels(object),
    };
    if let Some(selector) = selector {
        scale["status"]["selector"] = selector.into();
    }
    Ok(scale)
}

fn match_labels(object: &Value) -> Option<String> {
    let labels = object::at(object, &["spec", "selector", "matchLabels"])?.as_object()?;
    let terms: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    Some(terms.join(","))
}

/// The object with the replicas of a scale.
pub(crate) fn set(call: &Call, object: &Value, scale: &Value) -> Result<Value> {
    let replicas = object::at(scale, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    let old = object;
    let mut object = old.clone();
    let mut place = &mut object;
    for field in &paths(call)?.spec_replicas {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[field];
    }
    *place = replicas.into();
    if replicas < 0 {
        let path = format!(".{}", paths(call)?.spec_replicas.join("."));
        let mut causes = call.version.schema.validate(&object, Some(old));
        causes.push(Cause::invalid(path, &replicas.into(), "should be a non-negative integer"));
        return Err(ApiError::invalid(call.resource.name.group(), &call.resource.kind, &call.name, &causes));
    }
    match object::meta_str(scale, "resourceVersion") {
        "" => {}
        version => {
            object::metadata_mut(&mut object).insert("resourceVersion".to_owned(), version.into());
        }
    }
    Ok(object)
}

/// Replaces the scale.
pub(crate) async fn replace(call: &Call, scale: &Value, options: &WriteOptions) -> Result<Outcome> {
    let edit = |current: Option<&Value>| {
        let current = current.ok_or_else(|| call.not_found())?;
        Ok(update::Edit { object: set(call, current, scale)?, warnings: Vec::new(), tracked: false })
    };
    update::update(call, options, edit).await
}
