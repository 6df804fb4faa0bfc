//! The rules of FlowSchemas and PriorityLevelConfigurations. Requests are not classified here.

mod level;
mod schema;

use serde_json::{Value, json};

use super::super::Rules;
use crate::{
    match_criteria::items,
    object,
    status::Cause,
    user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED},
};
use level::{changed_level, default_level, invalid_level};
use schema::invalid_schema;

/// Their group.
pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Plural of FlowSchemas.
pub const FLOW_SCHEMAS: &str = "flowschemas";
/// Plural of PriorityLevelConfigurations.
pub const PRIORITY_LEVELS: &str = "prioritylevelconfigurations";

const EXEMPT: &str = "exempt";
const CATCH_ALL: &str = "catch-all";
const LAST_PRECEDENCE: i64 = 10_000;

pub(crate) const FLOW_SCHEMA: Rules = Rules {
    default: |schema| {
        if let Some(spec) = schema.get_mut("spec").filter(|spec| spec.is_object()) {
            default_number(spec, "matchingPrecedence", 1000);
        }
    },
    validate: |schema, _| {
        let (name, spec) = (object::name(schema), schema.get("spec").unwrap_or(&Value::Null));
        let mut causes = invalid_schema(name, spec);
        let is_fixed = |(fixed, _): &(&str, Value)| *fixed == name;
        if mandatory_schemas().into_iter().find(is_fixed).is_some_and(|(_, fixed)| fixed != *spec) {
            let detail = format!("spec of '{name}' must equal the fixed value");
            causes.push(Cause::invalid("spec", spec, &detail));
        }
        causes
    },
    validate_status: |schema, _| invalid_conditions(schema),
    reset_status: &["metadata", "spec"],
    ..LEVEL
};

pub(crate) const PRIORITY_LEVEL: Rules = Rules {
    validate: |level, _| {
        let (name, spec) = (object::name(level), level.get("spec").unwrap_or(&Value::Null));
        let mut causes = invalid_level(name, spec);
        causes.extend(changed_level(name, spec));
        causes
    },
    ..LEVEL
};

const LEVEL: Rules = Rules {
    default: default_level,
    on_create: |object, _| object["status"] = json!({}),
    validate_status: |level, _| invalid_conditions(level),
    reset_status: &["metadata", "spec"],
    blank: || json!({"spec": {}, "status": {}}),
    generation: true,
    ..Rules::PLAIN
};

/// Specs of the FlowSchemas that every cluster has.
pub fn mandatory_schemas() -> [(&'static str, Value); 2] {
    let rules = |groups: &[&str]| {
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect();
        json!([{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    let exempt = json!({
        "priorityLevelConfiguration": {"name": EXEMPT}, "matchingPrecedence": 1, "rules": rules(&[MASTERS]),
    });
    let rest = json!({
        "priorityLevelConfiguration": {"name": CATCH_ALL}, "matchingPrecedence": LAST_PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"}, "rules": rules(&[UNAUTHENTICATED, AUTHENTICATED]),
    });
    [(EXEMPT, exempt), (CATCH_ALL, rest)]
}

/// Specs of the PriorityLevelConfigurations that every cluster has.
pub fn mandatory_levels() -> [(&'static str, Value); 2] {
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let limited =
        json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0});
    [(EXEMPT, exempt), (CATCH_ALL, json!({"type": "Limited", "limited": limited}))]
}

/// 0 means that it is not set.
fn default_number(value: &mut Value, field: &str, default: i64) {
    if value.get(field).is_none_or(|number| number.is_null() || *number == 0) {
        value[field] = default.into();
    }
}

fn invalid_conditions(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let status = object.get("status").unwrap_or(&Value::Null);
    for (index, condition) in items(status, "conditions").iter().enumerate() {
        let at = format!("status.conditions[{index}].type");
        let kind = object::text(condition, &["type"]);
        if seen.contains(&kind) {
            causes.push(Cause::duplicate(at.clone(), &kind.into()));
        }
        if kind.is_empty() {
            causes.push(Cause::required(at, ""));
        }
        seen.push(kind);
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn what_every_cluster_has_is_valid_and_stays() {
        for (rules, objects) in [(&FLOW_SCHEMA, mandatory_schemas()), (&PRIORITY_LEVEL, mandatory_levels())] {
            for (name, spec) in objects {
                let mut object = json!({"metadata": {"name": name}, "spec": spec});
                let before = object.clone();
                (rules.default)(&mut object);
                assert_eq!(object, before, "defaults change nothing");
                assert_eq!((rules.validate)(&object, None), [], "{name}");
            }
        }
        let mut other = json!({"metadata": {"name": EXEMPT}, "spec": mandatory_levels()[0].1});
        other["spec"]["exempt"]["lendablePercent"] = 50.into();
        assert_eq!((PRIORITY_LEVEL.validate)(&other, None), []);
        other["metadata"]["name"] = CATCH_ALL.into();
        assert_eq!(fields(&(PRIORITY_LEVEL.validate)(&other, None)), ["spec.type", "spec"]);
        let mut other = json!({"metadata": {"name": EXEMPT}, "spec": mandatory_schemas()[0].1});
        other["spec"]["matchingPrecedence"] = 2.into();
        assert_eq!(fields(&(FLOW_SCHEMA.validate)(&other, None)), ["spec"]);
    }

    #[test]
    fn conditions_have_types_that_differ() {
        let twice = json!({"status": {"conditions": [{"type": "a"}, {"type": "a"}, {}]}});
        assert_eq!(
            fields(&invalid_conditions(&twice)),
            ["status.conditions[1].type", "status.conditions[2].type"]
        );
    }
}
