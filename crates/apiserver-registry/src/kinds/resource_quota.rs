//! ResourceQuotas: defaults and rules. They are not enforced here.

use serde_json::{Value, json};

use super::super::Rules;
use crate::{match_criteria::items, names::qualified_name_error, object, quantity::quantity, status::Cause};

/// The resource of quotas.
pub const RESOURCE_QUOTAS: &str = "resourcequotas";

/// Names without a prefix that quotas may limit.
const STANDARD: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// The first of them that are numbers of things.
const FIRST_WHOLE: usize = 10;
const PAGES: [&str; 2] = ["hugepages-", "requests.hugepages-"];
const COMPUTE: [&str; 6] =
    ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes of which a quota may have one.
const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
const ONLY_EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
    ResourceQuotaScopeCrossNamespacePodAffinity";

pub(crate) const RESOURCE_QUOTA: Rules = Rules {
    default: |quota| {
        for path in ["/spec/hard", "/status/hard", "/status/used"] {
            quota.pointer_mut(path).into_iter().for_each(normalize_quantities);
        }
    },
    on_create: |quota, _| quota["status"] = json!({}),
    validate: |quota, old| {
        let spec = quota.get("spec").unwrap_or(&Value::Null);
        let mut causes = invalid_amounts(spec.get("hard"), "spec.hard");
        causes.extend(invalid_scopes(spec));
        causes.extend(invalid_selector(spec));
        if old.is_some_and(|old| sorted_scopes(old) != sorted_scopes(quota)) {
            let scopes = spec.get("scopes").unwrap_or(&Value::Null);
            causes.push(Cause::invalid("spec.scopes", scopes, "field is immutable"));
        }
        causes
    },
    validate_status: |quota, _| {
        let parts = ["hard", "used"]
            .map(|part| invalid_amounts(object::at(quota, &["status", part]), &format!("status.{part}")));
        parts.concat()
    },
    blank: || json!({"spec": {}, "status": {}}),
    ..Rules::PLAIN
};

/// Writes quantities in their canonical form, rounded up to thousandths.
pub(super) fn normalize_quantities(map: &mut Value) {
    for value in map.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        if let Some(quantity) = quantity(value) {
            *value = quantity.in_thousandths().to_string().into();
        }
    }
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || PAGES.iter().any(|prefix| name.starts_with(prefix))
}

fn invalid_amounts(amounts: Option<&Value>, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (name, value) in amounts.and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{at}[{name}]");
        let mut refuse = |value: &Value, detail: &str| causes.push(Cause::invalid(at.clone(), value, detail));
        if let Some(detail) = qualified_name_error(name) {
            refuse(&name.as_str().into(), &detail);
        } else if !name.contains('/') && !is_standard(name) {
            refuse(&name.as_str().into(), "must be a standard resource type or fully qualified");
            refuse(&name.as_str().into(), "must be a standard resource for quota");
        }
        match quantity(value) {
            None => refuse(value, "must be a quantity, such as 500m or 1Gi"),
            Some(amount) if amount.is_negative() => refuse(value, "must be greater than or equal to 0"),
            Some(amount) if STANDARD[FIRST_WHOLE..].contains(&name.as_str()) && !amount.is_whole() => {
                refuse(value, "must be an integer");
            }
            Some(_) => {}
        }
    }
    causes
}

/// Whether a scope can be about what a name counts.
fn fits(scope: &str, name: &str) -> bool {
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => name == "pods" || COMPUTE.contains(&name),
        _ => true,
    }
}

/// Names among the limits that a scope cannot be about.
fn misfits(spec: &Value, scope: &str) -> usize {
    let names = spec.get("hard").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name);
    names.filter(|name| is_standard(name) && !fits(scope, name)).count()
}

fn conflicts(scopes: &[&str]) -> usize {
    OPPOSITES.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))).count()
}

fn sorted_scopes(quota: &Value) -> Vec<&str> {
    let scopes = object::at(quota, &["spec", "scopes"]).and_then(Value::as_array).into_iter().flatten();
    let mut scopes: Vec<&str> = scopes.filter_map(Value::as_str).collect();
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}

fn invalid_scopes(spec: &Value) -> Vec<Cause> {
    let given = spec.get("scopes").unwrap_or(&Value::Null);
    let scopes: Vec<&str> = items(spec, "scopes").iter().filter_map(Value::as_str).collect();
    let refuse = |detail: &str| Cause::invalid("spec.scopes", given, detail);
    let mut causes = Vec::new();
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            causes.push(refuse("unsupported scope"));
        }
        causes.extend((0..misfits(spec, scope)).map(|_| refuse("unsupported scope applied to resource")));
    }
    causes.extend((0..conflicts(&scopes)).map(|_| refuse("conflicting scopes")));
    causes
}

fn invalid_selector(spec: &Value) -> Vec<Cause> {
    let at = "spec.scopeSelector.matchExpressions";
    let selector = spec.get("scopeSelector").unwrap_or(&Value::Null);
    let mut causes = Vec::new();
    let mut scopes = Vec::new();
    for requirement in items(selector, "matchExpressions") {
        let (scope, operator) =
            (object::text(requirement, &["scopeName"]), object::text(requirement, &["operator"]));
        if !SCOPES.contains(&scope) {
            causes.push(Cause::invalid(format!("{at}.scopeName"), &scope.into(), "unsupported scope"));
        }
        let detail = "unsupported scope applied to resource";
        causes.extend((0..misfits(spec, scope)).map(|_| Cause::invalid(at, selector, detail)));
        let has_values = !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if has_values && SCOPES.contains(&scope) && operator != "Exists" {
            causes.push(Cause::invalid(format!("{at}.operator"), &operator.into(), ONLY_EXISTS));
        }
        let values = items(requirement, "values");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                causes.push(Cause::required(format!("{at}.values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                causes.push(Cause::invalid(format!("{at}.values"), &json!(values), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                let detail = "not a valid selector operator";
                causes.push(Cause::invalid(format!("{at}.operator"), &operator.into(), detail));
            }
        }
        scopes.push(scope);
    }
    let conflicting = || Cause::invalid(at, spec.get("scopes").unwrap_or(&Value::Null), "conflicting scopes");
    causes.extend((0..conflicts(&scopes)).map(|_| conflicting()));
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(spec: &Value) -> Vec<String> {
        let causes = (RESOURCE_QUOTA.validate)(&json!({"spec": spec}), None);
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn amounts_are_canonical_quantities() {
        let mut quota = json!({"spec": {"hard": {"cpu": 1, "memory": "1024Mi", "count/pods": "0.5"}}});
        (RESOURCE_QUOTA.default)(&mut quota);
        assert_eq!(quota["spec"]["hard"], json!({"cpu": "1", "memory": "1Gi", "count/pods": "500m"}));
        assert_eq!(fields(&quota["spec"]), [""; 0]);
        for (hard, expected) in [
            (json!({"cpu": "-1"}), "spec.hard[cpu]"),
            (json!({"pods": "1500m"}), "spec.hard[pods]"),
            (json!({"pods": "many"}), "spec.hard[pods]"),
            (json!({"/": "1"}), "spec.hard[/]"),
        ] {
            assert_eq!(fields(&json!({"hard": hard})), [expected], "{hard}");
        }
        assert_eq!(fields(&json!({"hard": {"apples": "1"}})), ["spec.hard[apples]"; 2]);
    }

    #[test]
    fn scopes_fit_the_limits_and_each_other() {
        let hard = json!({"pods": "1"});
        assert_eq!(fields(&json!({"hard": hard, "scopes": ["BestEffort", "NotTerminating"]})), [""; 0]);
        for spec in [
            json!({"hard": hard, "scopes": ["Some"]}),
            json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}),
            json!({"hard": {"secrets": "1"}, "scopes": ["Terminating"]}),
            json!({"hard": hard, "scopes": ["Terminating", "NotTerminating"]}),
        ] {
            assert_eq!(fields(&spec), ["spec.scopes"], "{spec}");
        }
        let selector = |scope: &str, operator: &str, values: Value| {
            fields(&json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
                {"scopeName": scope, "operator": operator, "values": values},
            ]}}))
        };
        let at = "spec.scopeSelector.matchExpressions";
        assert_eq!(selector("PriorityClass", "In", json!(["high"])), [""; 0]);
        assert_eq!(selector("PriorityClass", "In", json!([])), [format!("{at}.values")]);
        assert_eq!(selector("PriorityClass", "Exists", json!(["high"])), [format!("{at}.values")]);
        assert_eq!(selector("PriorityClass", "Is", json!(["high"])), [format!("{at}.operator")]);
        assert_eq!(selector("BestEffort", "NotIn", json!(["x"])), [format!("{at}.operator")]);
        let (old, new) = (json!({"spec": {"scopes": ["BestEffort"]}}), json!({"spec": {}}));
        assert_eq!((RESOURCE_QUOTA.validate)(&new, Some(&old))[0].field, "spec.scopes");
    }
}
