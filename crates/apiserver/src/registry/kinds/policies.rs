//! ValidatingAdmissionPolicies and their bindings: defaults and rules. `crate::admission` evaluates them.

use serde_json::{Value, json};

use super::super::Rules;
use crate::{match_criteria::default_rules, policy::validation};

pub(crate) const VALIDATING_ADMISSION_POLICY: Rules = Rules {
    default: default_policy,
    validate: |policy, _| validation::policy(policy),
    generation: true,
    unconditional_update: false,
    ..Rules::PLAIN
};

pub(crate) const VALIDATING_ADMISSION_POLICY_BINDING: Rules = Rules {
    default: |binding| default_criteria(binding, "matchResources"),
    validate: |binding, _| validation::binding(binding),
    generation: true,
    unconditional_update: false,
    ..Rules::PLAIN
};

fn default_policy(policy: &mut Value) {
    if let Some(spec) = policy.get_mut("spec").filter(|spec| spec.is_object())
        && spec.get("failurePolicy").is_none_or(Value::is_null)
    {
        spec["failurePolicy"] = "Fail".into();
    }
    default_criteria(policy, "matchConstraints");
}

fn default_criteria(object: &mut Value, field: &str) {
    let criteria = object.get_mut("spec").and_then(|spec| spec.get_mut(field));
    let Some(criteria) = criteria.filter(|criteria| criteria.is_object()) else { return };
    for (field, value) in [
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
    ] {
        if criteria.get(field).is_none_or(Value::is_null) {
            criteria[field] = value;
        }
    }
    default_rules(criteria, "resourceRules");
    default_rules(criteria, "excludeResourceRules");
}
