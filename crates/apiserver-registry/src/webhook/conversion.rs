//! The conversion of a CRD's objects, as its `spec.conversion` describes it. The client that calls the webhook is not here.

use serde_json::Value;

use super::target::{Target, validate};
use crate::{
    names::{NameRule, name_error},
    object,
    status::Cause,
};

/// The versions of the review that this server speaks; they look the same.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// A CRD's `spec.conversion` with a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converter {
    /// The address of the webhook.
    pub target: Target,
    /// The version of the review that it is sent.
    pub review: &'static str,
}

impl Converter {
    /// Reads a `spec.conversion` whose strategy is `Webhook`.
    pub fn of(conversion: &Value) -> Option<Self> {
        let webhook = conversion.get("webhook")?;
        let given = webhook.get("conversionReviewVersions")?.as_array()?;
        let known = |given: &Value| REVIEWS.into_iter().find(|known| given == known);
        let review = given.iter().find_map(known)?;
        Some(Self { target: Target::of(webhook.get("clientConfig")?)?, review })
    }
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
    use serde_json::json;

    use super::*;

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
