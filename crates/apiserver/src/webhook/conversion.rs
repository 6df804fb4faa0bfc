//! Conversion by a webhook: a `ConversionReview` with all objects of an answer, one call.
//!
//! The webhook is not trusted with what an object is: name, namespace, uid and all other metadata but
//! labels and annotations stay as they were.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Target, Webhooks, validate};
use crate::{
    names::{NameRule, name_error},
    object,
    status::{ApiError, Cause, Result},
};

/// As upstream.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The versions of the review that this server speaks; they look the same.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// A CRD's `spec.conversion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Converter {
    target: Target,
    review: &'static str,
}

impl Converter {
    /// Reads a `spec.conversion` whose strategy is `Webhook`.
    pub(crate) fn of(conversion: &Value) -> Option<Self> {
        let webhook = conversion.get("webhook")?;
        let given = webhook.get("conversionReviewVersions")?.as_array()?;
        let known = |given: &Value| REVIEWS.into_iter().find(|known| given == known);
        let review = given.iter().find_map(known)?;
        Some(Self { target: Target::of(webhook.get("clientConfig")?)?, review })
    }

    /// Objects of one kind in another version, in the same order.
    pub(crate) async fn convert(
        &self,
        webhooks: &Webhooks,
        api_version: &str,
        objects: &[&Value],
    ) -> Result<Vec<Value>> {
        let Some(first) = objects.first() else { return Ok(Vec::new()) };
        let kind = gvk(first);
        let failed =
            |reason: String| ApiError::unexplained(format!("conversion webhook for {kind} failed: {reason}"));
        let uid = Uuid::new_v4().to_string();
        let version = format!("apiextensions.k8s.io/{}", self.review);
        let review = json!({
            "kind": "ConversionReview", "apiVersion": version,
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        });
        let answer = webhooks.call(&self.target, "", TIMEOUT, &review).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let converted = converted(answer, &version, &uid).map_err(failed)?;
        restored(converted, objects, api_version)
            .map_err(|reason| ApiError::unexplained(format!("conversion webhook for {kind} {reason}")))
    }
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

/// What is wrong with the `spec.conversion` of a CRD.
pub(crate) fn validate_conversion(conversion: &Value) -> Vec<Cause> {
    const AT: &str = "spec.conversion";
    let strategy = object::text(conversion, &["strategy"]);
    let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
    let config = webhook.get("clientConfig").filter(|config| !config.is_null());
    let versions = webhook.get("conversionReviewVersions").and_then(Value::as_array);
    let client = format!("{AT}.webhookClientConfig");
    let reviews = format!("{AT}.conversionReviewVersions");
    let mut causes = Vec::new();
    match strategy {
        "" => causes.push(Cause::required(format!("{AT}.strategy"), "")),
        "None" => {
            let detail = "should not be set when strategy is not set to Webhook";
            if config.is_some() {
                causes.push(Cause::forbidden(client, detail));
            }
            if versions.is_some_and(|versions| !versions.is_empty()) {
                causes.push(Cause::forbidden(reviews, detail));
            }
        }
        "Webhook" => {
            match config {
                None => causes.push(Cause::required(client, "required when strategy is set to Webhook")),
                Some(config) => causes.extend(validate(config, &client)),
            }
            let given = versions.map_or(&[][..], Vec::as_slice);
            for (index, version) in given.iter().enumerate() {
                let text = version.as_str().unwrap_or_default();
                let wrong = name_error(NameRule::Word, text);
                let twice = given[..index].contains(version).then_some("duplicate version");
                if let Some(detail) = twice.or(wrong) {
                    causes.push(Cause::invalid(format!("{reviews}[{index}]"), version, detail));
                }
            }
            if given.is_empty() {
                causes.push(Cause::required(reviews, ""));
            } else if !given.iter().any(|given| REVIEWS.iter().any(|known| given == known)) {
                let detail = "must include at least one of v1, v1beta1";
                causes.push(Cause::invalid(reviews, &Value::from(given), detail));
            }
        }
        other => {
            let strategy = format!("{AT}.strategy");
            causes.push(Cause::unsupported(strategy, &other.into(), &["None", "Webhook"]));
        }
    }
    causes
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

    #[test]
    fn a_strategy_and_what_belongs_to_it() {
        let fields = |conversion: Value| {
            validate_conversion(&conversion).iter().map(|cause| cause.field.clone()).collect::<Vec<_>>()
        };
        let webhook = json!({"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]});
        assert!(fields(json!({"strategy": "None"})).is_empty());
        assert!(fields(json!({"strategy": "Webhook", "webhook": webhook})).is_empty());
        assert_eq!(fields(json!({"strategy": "None", "webhook": webhook})).len(), 2);
        assert_eq!(fields(json!({"strategy": "Webhook"})).len(), 2);
        assert_eq!(fields(json!({"strategy": "X"})), ["spec.conversion.strategy"]);
    }
}
