//! Conversion by a webhook: a `ConversionReview` with all objects of an answer, one call.
//!
//! The webhook is not trusted with what an object is: name, namespace, uid and all other metadata but
//! labels and annotations stay as they were.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::Webhooks;
use crate::{
    object,
    registry::webhook::conversion::Converter,
    status::{ApiError, Result},
};

/// As upstream.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Objects of one kind in another version, in the same order.
pub(crate) async fn convert(
    converter: &Converter,
    webhooks: &Webhooks,
    api_version: &str,
    objects: &[&Value],
) -> Result<Vec<Value>> {
    let Some(first) = objects.first() else { return Ok(Vec::new()) };
    let kind = gvk(first);
    let failed =
        |reason: String| ApiError::unexplained(format!("conversion webhook for {kind} failed: {reason}"));
    let uid = Uuid::new_v4().to_string();
    let version = format!("apiextensions.k8s.io/{}", converter.review);
    let review = json!({
        "kind": "ConversionReview", "apiVersion": version,
        "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
    });
    let answer = webhooks.call(&converter.target, "", TIMEOUT, &review).await;
    let answer = answer.map_err(|error| failed(error.to_string()))?;
    let converted = converted(answer, &version, &uid).map_err(failed)?;
    restored(converted, objects, api_version)
        .map_err(|reason| ApiError::unexplained(format!("conversion webhook for {kind} {reason}")))
}

fn gvk(object: &Value) -> String {
    format!("{}, Kind={}", object::api_version(object), object::kind(object))
}

/// The objects of an answer, if it is one to this review.
fn converted(mut answer: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    if object::api_version(&answer) != version || object::kind(&answer) != "ConversionReview" {
        return Err(format!(
            "expected webhook response of {version}, Kind=ConversionReview, got {}",
            gvk(&answer)
        ));
    }
    if !answer["response"].is_object() {
        return Err("no response provided".to_owned());
    }
    let given = object::text(&answer, &["response", "uid"]);
    if given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let result = &answer["response"]["result"];
    match object::text(result, &["status"]) {
        "Success" => {}
        status => {
            return Err(match object::text(result, &["message"]) {
                "" => format!("response.result.status was {status:?}, not \"Success\""),
                message => message.to_owned(),
            });
        }
    }
    match answer["response"]["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Converted objects that are still what they were, with the metadata they had.
fn restored(converted: Vec<Value>, originals: &[&Value], api_version: &str) -> Result<Vec<Value>, String> {
    if converted.len() != originals.len() {
        return Err(format!("returned {} objects, expected {}", converted.len(), originals.len()));
    }
    let pairs = converted.into_iter().zip(originals).enumerate();
    pairs
        .map(|(index, (converted, original))| {
            restore(converted, original, api_version)
                .map_err(|reason| format!("returned invalid converted object at index {index}: {reason}"))
        })
        .collect()
}

fn restore(mut converted: Value, original: &Value, api_version: &str) -> Result<Value, String> {
    let given = object::api_version(&converted);
    if given != api_version {
        return Err(format!("invalid groupVersion (expected {api_version}, received {given})"));
    }
    let (expected, given) = (object::kind(original), object::kind(&converted));
    if expected != given {
        return Err(format!("invalid kind (expected {expected}, received {given})"));
    }
    for field in ["name", "namespace", "uid"] {
        let (expected, given) = (object::meta_str(original, field), object::meta_str(&converted, field));
        if expected != given {
            return Err(format!("must have the same {field}: {expected} != {given}"));
        }
    }
    let mut metadata = object::metadata(original).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match object::metadata(&converted).and_then(|metadata| metadata.get(field)) {
            None | Some(Value::Null) => drop(metadata.shift_remove(field)),
            Some(Value::Object(given)) if given.values().all(Value::is_string) => {
                metadata.insert(field.to_owned(), Value::Object(given.clone()));
            }
            Some(_) => return Err(format!("metadata.{field} is not a map of texts")),
        }
    }
    converted["metadata"] = Value::Object(metadata);
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widget(version: &str, labels: &Value) -> Value {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": labels,
        }})
    }

    #[test]
    fn only_labels_and_annotations_of_the_metadata_change() {
        let original = widget("v1", &json!({"a": "1"}));
        let mut converted = widget("v2", &json!({"b": "2"}));
        converted["metadata"]["resourceVersion"] = "9".into();
        converted["metadata"]["finalizers"] = json!(["x"]);
        converted["metadata"]["annotations"] = json!({"c": "3"});
        let restored = restore(converted.clone(), &original, "example.com/v2").unwrap();
        assert_eq!(restored["metadata"]["resourceVersion"], "7");
        assert_eq!(restored["metadata"]["labels"], json!({"b": "2"}));
        assert_eq!(restored["metadata"]["annotations"], json!({"c": "3"}));
        assert!(restored["metadata"].get("finalizers").is_none());
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut converted = converted.clone();
            change(&mut converted);
            restore(converted, &original, "example.com/v2").unwrap_err()
        };
        assert_eq!(
            refused(&|c| c["apiVersion"] = "example.com/v3".into()),
            "invalid groupVersion (expected example.com/v2, received example.com/v3)"
        );
        assert_eq!(refused(&|c| c["kind"] = "X".into()), "invalid kind (expected Widget, received X)");
        assert_eq!(refused(&|c| c["metadata"]["uid"] = "x".into()), "must have the same uid: u != x");
        assert!(refused(&|c| c["metadata"]["labels"]["b"] = 1.into()).contains("labels"));
    }

    #[test]
    fn responses_must_belong_to_the_request() {
        let answer = |uid: &str, status: &str| {
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
                "uid": uid, "result": {"status": status, "message": "no"}, "convertedObjects": [1],
            }})
        };
        let read = |answer: Value| converted(answer, "apiextensions.k8s.io/v1", "u");
        assert_eq!(read(answer("u", "Success")).unwrap(), [json!(1)]);
        assert_eq!(read(answer("x", "Success")).unwrap_err(), "expected response.uid=\"u\", got \"x\"");
        assert_eq!(read(answer("u", "Failure")).unwrap_err(), "no");
        assert!(read(json!({})).unwrap_err().contains("ConversionReview"));
        assert_eq!(restored(Vec::new(), &[&json!(1)], "v").unwrap_err(), "returned 0 objects, expected 1");
    }
}
