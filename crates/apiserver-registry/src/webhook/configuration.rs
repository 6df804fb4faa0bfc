//! Webhooks as configurations describe them.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use capstan_apiserver_schema::admission::{Expression, Returns, Uses};

use super::target::{self, Target};
use crate::{
    match_criteria::{Criteria, items},
    object,
    selector::LabelSelector,
    status::Cause,
    store::{GroupResource, Store},
};

/// The group of configurations.
pub const GROUP: &str = "admissionregistration.k8s.io";
/// The versions of the review that this server speaks; they look the same.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
/// What a condition may refer to.
const USES: Uses = Uses { params: false, authorizer: true, returns: Returns::Bool };
/// As many conditions as upstream allows.
const CONDITIONS: usize = 64;

/// When a webhook is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It may change the object.
    Mutating,
    /// It may reject the request.
    Validating,
}

/// One webhook.
pub struct Hook {
    /// Its name.
    pub name: String,
    /// Whether it may change the object.
    pub mutating: bool,
    /// Its address.
    pub target: Target,
    /// The version of the review that it is sent.
    pub review: &'static str,
    /// Which requests it is about.
    pub criteria: Criteria,
    /// Match conditions: name and expression.
    pub conditions: Vec<(String, Expression)>,
    /// Whether it can be done without.
    pub ignored: bool,
    /// Whether it may be asked about what will not happen.
    pub dry_runs: bool,
    /// Whether it wants to see what others make of its changes.
    pub reinvoked: bool,
    /// How long it may take to respond.
    pub timeout: Duration,
}

/// All webhooks of a phase, in the order they are asked: by the name of their configuration, then as written.
pub fn all(store: &Store, phase: Phase) -> Vec<Hook> {
    let resource = match phase {
        Phase::Mutating => "mutatingwebhookconfigurations",
        Phase::Validating => "validatingwebhookconfigurations",
    };
    let listing = store.list(&GroupResource::new(GROUP, resource), None);
    let configurations = listing.items.iter().map(Arc::as_ref);
    configurations
        .flat_map(|stored| items(&stored.value, "webhooks"))
        // What cannot be read was refused when it was written.
        .filter_map(|written| Hook::of(written, phase == Phase::Mutating))
        .collect()
}

impl Hook {
    fn of(written: &Value, mutating: bool) -> Option<Self> {
        let text = |field: &str| object::text(written, &[field]);
        let reviews = items(written, "admissionReviewVersions");
        let conditions = items(written, "matchConditions").iter().map(|condition| {
            let expression = Expression::compile(object::text(condition, &["expression"]), USES).ok()?;
            Some((object::text(condition, &["name"]).to_owned(), expression))
        });
        let seconds = written.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(10);
        Some(Self {
            name: text("name").to_owned(),
            mutating,
            target: Target::of(written.get("clientConfig")?)?,
            review: reviews.iter().find_map(|given| REVIEWS.into_iter().find(|known| given == known))?,
            criteria: Criteria::of(written, "rules")?,
            conditions: conditions.collect::<Option<_>>()?,
            ignored: text("failurePolicy") == "Ignore",
            dry_runs: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            reinvoked: text("reinvocationPolicy") == "IfNeeded",
            timeout: Duration::from_secs(seconds.clamp(1, 30)),
        })
    }
}

/// What is wrong with a configuration.
pub(crate) fn validate(configuration: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (index, hook) in items(configuration, "webhooks").iter().enumerate() {
        let at = format!("webhooks[{index}]");
        let name = object::text(hook, &["name"]);
        if names.contains(&name) {
            causes.push(Cause::duplicate(format!("{at}.name"), &name.into()));
        }
        names.push(name);
        causes.extend(validate_hook(hook, &at));
    }
    causes
}

fn validate_hook(hook: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |field: &str| object::text(hook, &[field]);
    let place = |field: &str| format!("{at}.{field}");
    if text("name").split('.').filter(|part| !part.is_empty()).count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        causes.push(Cause::invalid(place("name"), &text("name").into(), detail));
    }
    let config = hook.get("clientConfig").unwrap_or(&Value::Null);
    causes.extend(target::validate(config, &place("clientConfig")));
    let choices: [(&str, &[&str]); 4] = [
        ("failurePolicy", &["Fail", "Ignore"]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
        ("sideEffects", &["None", "NoneOnDryRun"]),
    ];
    for (field, supported) in choices {
        match text(field) {
            "" if field == "sideEffects" => {
                causes.push(Cause::required(place(field), "must specify one of None, NoneOnDryRun"));
            }
            "" => {}
            given if supported.contains(&given) => {}
            given => causes.push(Cause::unsupported(place(field), &given.into(), supported)),
        }
    }
    if let Some(seconds) = hook.get("timeoutSeconds").and_then(Value::as_i64)
        && !(1..=30).contains(&seconds)
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        causes.push(Cause::invalid(place("timeoutSeconds"), &seconds.into(), detail));
    }
    let reviews = items(hook, "admissionReviewVersions");
    if reviews.is_empty() {
        let detail = "must specify one of v1, v1beta1";
        causes.push(Cause::required(place("admissionReviewVersions"), detail));
    } else if !reviews.iter().any(|given| REVIEWS.iter().any(|known| given == known)) {
        let detail = "must include at least one of v1, v1beta1";
        causes.push(Cause::invalid(place("admissionReviewVersions"), &Value::from(reviews), detail));
    }
    for (index, rule) in items(hook, "rules").iter().enumerate() {
        for field in ["operations", "apiGroups", "apiVersions", "resources"] {
            if items(rule, field).is_empty() {
                causes.push(Cause::required(place(&format!("rules[{index}].{field}")), ""));
            }
        }
        let scope = object::text(rule, &["scope"]);
        if !["", "*", "Cluster", "Namespaced"].contains(&scope) {
            let supported = ["*", "Cluster", "Namespaced"];
            causes.push(Cause::unsupported(
                place(&format!("rules[{index}].scope")),
                &scope.into(),
                &supported,
            ));
        }
    }
    for field in ["namespaceSelector", "objectSelector"] {
        let selector = hook.get(field).unwrap_or(&Value::Null);
        if LabelSelector::of(selector).is_none() {
            causes.push(Cause::invalid(place(field), selector, "not a label selector"));
        }
    }
    causes.extend(validate_conditions(items(hook, "matchConditions"), &place("matchConditions"), USES));
    causes
}

/// An expression that cannot be compiled, or returns something else.
pub(crate) fn uncompiled(at: String, source: &str, why: &str) -> Cause {
    let detail = match why.strip_prefix("must evaluate to ") {
        Some(_) => why.to_owned(),
        None => format!("compilation failed: {why}"),
    };
    Cause::invalid(at, &source.into(), &detail)
}

/// What is wrong with the match conditions of a webhook or policy.
pub(crate) fn validate_conditions(conditions: &[Value], at: &str, uses: Uses) -> Vec<Cause> {
    let mut causes = Vec::new();
    if conditions.len() > CONDITIONS {
        causes.push(Cause::too_many(at, conditions.len(), CONDITIONS));
    }
    let mut names: Vec<&str> = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let (name, expression) =
            (object::text(condition, &["name"]), object::text(condition, &["expression"]));
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}[{index}].name"), ""));
        } else if names.contains(&name) {
            causes.push(Cause::duplicate(format!("{at}[{index}].name"), &name.into()));
        }
        names.push(name);
        if expression.trim().is_empty() {
            causes.push(Cause::required(format!("{at}[{index}].expression"), ""));
        } else if let Err(reason) = Expression::compile(expression, uses) {
            causes.push(uncompiled(format!("{at}[{index}].expression"), expression, &reason));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_says_all_that_is_needed() {
        let good = json!({
            "name": "a.b.c", "clientConfig": {"url": "https://a"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "matchConditions": [{"name": "x", "expression": "object.a > 1"}],
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"]}],
        });
        let wrong = |hooks: &[Value]| {
            validate(&json!({"webhooks": hooks})).iter().map(|cause| cause.field.clone()).collect::<Vec<_>>()
        };
        assert!(wrong(std::slice::from_ref(&good)).is_empty());
        assert_eq!(wrong(&[good.clone(), good.clone()]), ["webhooks[1].name"]);
        let with = |field: &str, value: Value| {
            let mut hook = good.clone();
            hook[field] = value;
            wrong(&[hook])
        };
        assert_eq!(with("name", json!("a")), ["webhooks[0].name"]);
        assert_eq!(with("sideEffects", json!("Some")), ["webhooks[0].sideEffects"]);
        assert_eq!(with("timeoutSeconds", json!(31)), ["webhooks[0].timeoutSeconds"]);
        assert_eq!(with("admissionReviewVersions", json!(["v9"])), ["webhooks[0].admissionReviewVersions"]);
        assert_eq!(
            with("matchConditions", json!([{"name": "x", "expression": "self.a"}])),
            ["webhooks[0].matchConditions[0].expression"]
        );
        assert_eq!(with("rules", json!([{"operations": ["*"]}])).len(), 3);
        assert!(Hook::of(&good, true).is_some());
    }
}
