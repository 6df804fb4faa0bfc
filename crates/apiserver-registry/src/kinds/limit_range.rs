//! LimitRanges: defaults and rules. They are not applied to pods here.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{super::Rules, core::default_to, resource_quota::normalize_quantities};
use crate::{
    match_criteria::items,
    names::qualified_name_error,
    object,
    quantity::{Quantity, quantities, quantity},
    status::Cause,
};

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
const PARTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
/// Resources of which limits may be more than there is.
const OVERCOMMITTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub(crate) const LIMIT_RANGE: Rules = Rules {
    default: |range| {
        let limits = range.pointer_mut("/spec/limits").and_then(Value::as_array_mut);
        limits.into_iter().flatten().filter(|limit| limit.is_object()).for_each(default_limit);
    },
    validate: |range, _| {
        let spec = range.get("spec").unwrap_or(&Value::Null);
        let mut causes = Vec::new();
        let mut types = Vec::new();
        for (index, limit) in items(spec, "limits").iter().enumerate() {
            let at = format!("spec.limits[{index}]");
            let kind = object::text(limit, &["type"]);
            if types.contains(&kind) {
                causes.push(Cause::duplicate(format!("{at}.type"), &kind.into()));
            }
            types.push(kind);
            causes.extend(invalid_limit(limit, &at));
        }
        causes
    },
    blank: || json!({"spec": {"limits": null}}),
    create_on_update: true,
    ..Rules::PLAIN
};

/// A limit of containers defaults to the most that they may have, a request to the limit or to the least.
fn default_limit(limit: &mut Value) {
    for part in PARTS {
        limit.get_mut(part).into_iter().for_each(normalize_quantities);
    }
    if object::text(limit, &["type"]) != "Container" {
        return;
    }
    for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let amounts = limit.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        if amounts.is_empty() {
            continue;
        }
        default_to(limit, to, json!({}));
        for (name, amount) in amounts {
            default_to(&mut limit[to], &name, amount);
        }
    }
}

fn invalid_limit(limit: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = object::text(limit, &["type"]);
    if let Some(detail) = qualified_name_error(kind) {
        causes.push(Cause::invalid(format!("{at}.type"), &kind.into(), &detail));
    } else if !kind.contains('/') && !TYPES.contains(&kind) {
        let detail = "must be a standard limit type or fully qualified";
        causes.push(Cause::invalid(format!("{at}.type"), &kind.into(), detail));
    }
    let entries = |part: &str| limit.get(part).and_then(Value::as_object).into_iter().flatten();
    for part in ["default", "defaultRequest"] {
        if kind == "Pod" && entries(part).next().is_some() {
            let detail = "may not be specified when `type` is 'Pod'";
            causes.push(Cause::forbidden(format!("{at}.{part}"), detail));
        }
    }
    if kind == "PersistentVolumeClaim"
        && !["min", "max"].iter().any(|part| entries(part).any(|(name, _)| name == "storage"))
    {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        causes.push(Cause::required(format!("{at}.limits"), detail));
    }
    let mut names = BTreeSet::new();
    for part in PARTS {
        for (name, value) in entries(part) {
            let at = format!("{at}.{part}[{name}]");
            names.insert(name.as_str());
            if let Some(detail) = qualified_name_error(name) {
                causes.push(Cause::invalid(at.clone(), &name.as_str().into(), &detail));
            }
            if quantity(value).is_none() {
                causes.push(Cause::invalid(at, value, "must be a quantity, such as 500m or 1Gi"));
            }
        }
    }
    let amounts = PARTS.map(|part| quantities(limit.get(part)));
    for name in names {
        let [max, min, default, request, ratio] = amounts.each_ref().map(|part| part.get(name).copied());
        causes.extend(contradictions(name, at, [max, min, default, request, ratio]));
    }
    causes
}

/// What contradicts each other: the most, the least, the default limit, the default request, the highest ratio.
fn contradictions(name: &str, at: &str, amounts: [Option<Quantity>; 5]) -> Vec<Cause> {
    let [max, min, default, request, ratio] = amounts;
    let mut causes = Vec::new();
    let mut refuse = |part: &str, shown: Quantity, detail: String| {
        causes.push(Cause::invalid(format!("{at}.{part}[{name}]"), &shown.to_string().into(), &detail));
    };
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        refuse("min", min, format!("min value {min} is greater than max value {max}"));
    }
    if let Some(request) = request {
        if let Some(min) = min.filter(|min| *min > request) {
            let detail = format!("min value {min} is greater than default request value {request}");
            refuse("defaultRequest", request, detail);
        }
        if let Some(max) = max.filter(|max| request > *max) {
            let detail = format!("default request value {request} is greater than max value {max}");
            refuse("defaultRequest", request, detail);
        }
        if let Some(default) = default.filter(|default| request > *default) {
            let detail =
                format!("default request value {request} is greater than default limit value {default}");
            refuse("defaultRequest", request, detail);
        }
    }
    if let Some(default) = default {
        if let Some(min) = min.filter(|min| *min > default) {
            refuse("default", min, format!("min value {min} is greater than default value {default}"));
        }
        if let Some(max) = max.filter(|max| default > *max) {
            refuse("default", max, format!("default value {default} is greater than max value {max}"));
        }
    }
    if let Some(ratio) = ratio {
        if ratio < Quantity::count(1) {
            refuse("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (min, max) {
            let most = max.ratio(min);
            if ratio.ratio(Quantity::count(1)) > most {
                let detail = format!("ratio {ratio} is greater than max/min = {most:.6}");
                refuse("maxLimitRequestRatio", ratio, detail);
            }
        }
    }
    if let (Some(default), Some(request)) = (default, request)
        && default != request
        && (name.starts_with("hugepages-") || name.contains('/') && !name.contains("kubernetes.io/"))
        && !OVERCOMMITTED.contains(&name)
    {
        let detail =
            format!("default value {default} must equal to defaultRequest value {request} in {name}");
        refuse("defaultRequest", request, detail);
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_from_bounds() {
        let mut range = json!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": 2}, "min": {"memory": "1024Mi"}, "default": {"memory": "2Gi"}},
            {"type": "Pod", "max": {"cpu": "4"}},
        ]}});
        (LIMIT_RANGE.default)(&mut range);
        let expected = json!({
            "type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}, "default": {"memory": "2Gi", "cpu": "2"},
            "defaultRequest": {"memory": "2Gi", "cpu": "2"},
        });
        assert_eq!(range["spec"]["limits"], json!([expected, {"type": "Pod", "max": {"cpu": "4"}}]));
        assert_eq!((LIMIT_RANGE.validate)(&range, None), []);
    }

    #[test]
    fn contradictions_are_rejected() {
        for (limit, field) in [
            (json!({"type": "Node"}), "type"),
            (json!({"type": "PersistentVolumeClaim"}), "limits"),
            (json!({"type": "Pod", "default": {"cpu": "1"}}), "default"),
            (json!({"type": "Pod", "max": {"cpu": "x"}}), "max[cpu]"),
            (json!({"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}), "min[cpu]"),
            (json!({"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}}), "default[cpu]"),
            (
                json!({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}),
                "defaultRequest[cpu]",
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}),
                "maxLimitRequestRatio[cpu]",
            ),
            (
                json!({"type": "Pod", "max": {"cpu": "4"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "5"}}),
                "maxLimitRequestRatio[cpu]",
            ),
            (
                json!({"type": "Container", "default": {"example.com/x": "2"}, "defaultRequest": {"example.com/x": "1"}}),
                "defaultRequest[example.com/x]",
            ),
        ] {
            let range = json!({"spec": {"limits": [limit]}});
            let causes = (LIMIT_RANGE.validate)(&range, None);
            let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, [format!("spec.limits[0].{field}")], "{limit}");
        }
        let twice = json!({"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}});
        assert_eq!((LIMIT_RANGE.validate)(&twice, None)[0].field, "spec.limits[1].type");
    }
}
