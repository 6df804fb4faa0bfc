//! HorizontalPodAutoscalers: stored as `autoscaling/v2`, shown as `v1` too, which has one metric only. Other fields are
//! in annotations of `v1`, in the form of kube-apiserver. They are only stored: no controller scales by them.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::{
    super::{Rules, Schema},
    core::{default_to, object_in},
};
use crate::{
    names::{NameRule, name_error},
    object,
    status::Cause,
};

const OLD: &str = "autoscaling/v1";
const NEW: &str = "autoscaling/v2";
/// The target where there is no metric at all.
const DEFAULT_PERCENT: i64 = 80;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const SPEC_ANNOTATIONS: [&str; 4] = [
    METRICS,
    BEHAVIOR,
    // Not written any more.
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];
const STATUS_ANNOTATIONS: [&str; 2] = [CURRENT_METRICS, CONDITIONS];

pub(crate) const AUTOSCALER: Rules = Rules {
    default: |autoscaler| {
        let version = object::api_version(autoscaler).to_owned();
        let mut new = convert(autoscaler.take(), NEW);
        drop_annotations(&mut new, &[&SPEC_ANNOTATIONS[..], &STATUS_ANNOTATIONS].concat());
        default(&mut new);
        *autoscaler = convert(new, &version);
    },
    on_create: |autoscaler, _| {
        drop_annotations(autoscaler, &STATUS_ANNOTATIONS);
        autoscaler["status"] = if is_old(autoscaler) {
            json!({"currentReplicas": 0, "desiredReplicas": 0})
        } else {
            json!({"desiredReplicas": 0})
        };
    },
    // In the old version a part of the status is in annotations, which a client may drop, and likewise a part of the spec.
    on_update: |autoscaler, old, _| keep_annotations(autoscaler, old, &STATUS_ANNOTATIONS),
    on_status: |autoscaler, old, _| keep_annotations(autoscaler, old, &SPEC_ANNOTATIONS),
    validate: |autoscaler, _| {
        let new = convert(autoscaler.clone(), NEW);
        validate(new.get("spec").unwrap_or(&Value::Null))
    },
    blank: || json!({"spec": {"scaleTargetRef": {"kind": "", "name": ""}, "maxReplicas": 0}, "status": {"desiredReplicas": 0}}),
    ..Rules::PLAIN
};

fn is_old(autoscaler: &Value) -> bool {
    object::api_version(autoscaler) == OLD
}

/// An autoscaler in one of the versions.
pub fn convert(autoscaler: Value, api_version: &str) -> Value {
    match (is_old(&autoscaler), api_version == OLD) {
        (true, false) => to_new(autoscaler),
        (false, true) => to_old(autoscaler),
        _ => autoscaler,
    }
}

fn cpu(percent: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

/// The percentage of a metric that the old version knows; `within` is `target` or `current`.
fn cpu_percent<'a>(metric: &'a Value, within: &str) -> Option<&'a Value> {
    let is_cpu =
        object::text(metric, &["type"]) == "Resource" && object::text(metric, &["resource", "name"]) == "cpu";
    object::at(metric, &["resource", within, "averageUtilization"]).filter(|it| is_cpu && !it.is_null())
}

fn to_new(mut autoscaler: Value) -> Value {
    let kept = annotations(&autoscaler);
    drop_annotations(&mut autoscaler, &[&SPEC_ANNOTATIONS[..], &STATUS_ANNOTATIONS].concat());
    autoscaler["apiVersion"] = NEW.into();
    if let Some(spec) = autoscaler.get_mut("spec").and_then(Value::as_object_mut) {
        let percent = spec.shift_remove("targetCPUUtilizationPercentage").filter(|it| !it.is_null());
        let others = kept(METRICS).and_then(|metrics| new_metrics(&metrics, Part::Spec));
        let mut metrics = others.unwrap_or_default();
        metrics.extend(percent.as_ref().map(cpu));
        if metrics.is_empty() {
            metrics.push(cpu(&DEFAULT_PERCENT.into()));
        }
        spec.insert("metrics".to_owned(), metrics.into());
        let behavior = kept(BEHAVIOR).map(|behavior| decapitalized(&behavior));
        let behavior =
            behavior.and_then(|behavior| typed("spec", &json!({"behavior": behavior}), "behavior"));
        if let Some(behavior) = behavior.filter(|behavior| *behavior != json!({})) {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if let Some(status) = autoscaler.get_mut("status").and_then(Value::as_object_mut) {
        let percent = status.shift_remove("currentCPUUtilizationPercentage").filter(|it| !it.is_null());
        if status.get("currentReplicas") == Some(&json!(0)) {
            status.shift_remove("currentReplicas");
        }
        let metric = |percent: Value| json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}});
        // The annotation says more than the percentage.
        let metrics = kept(CURRENT_METRICS).and_then(|metrics| new_metrics(&metrics, Part::Status));
        if let Some(metrics) = metrics.or_else(|| percent.map(|percent| vec![metric(percent)])) {
            status.insert("currentMetrics".to_owned(), metrics.into());
        }
        let conditions = kept(CONDITIONS)
            .and_then(|conditions| typed("status", &json!({"conditions": conditions}), "conditions"));
        if let Some(conditions) = conditions {
            status.insert("conditions".to_owned(), conditions);
        }
    }
    autoscaler
}

fn to_old(mut autoscaler: Value) -> Value {
    drop_annotations(&mut autoscaler, &[&SPEC_ANNOTATIONS[..], &STATUS_ANNOTATIONS].concat());
    autoscaler["apiVersion"] = OLD.into();
    let mut kept = Vec::new();
    if let Some(spec) = autoscaler.get_mut("spec").and_then(Value::as_object_mut) {
        let metrics = spec.shift_remove("metrics").unwrap_or_default();
        let metrics = metrics.as_array().map_or(&[][..], Vec::as_slice);
        let percent = metrics.iter().find_map(|metric| cpu_percent(metric, "target"));
        if let Some(percent) = percent {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
        }
        let others = metrics.iter().filter(|metric| cpu_percent(metric, "target").is_none());
        let others: Vec<Value> = others.map(|metric| old_metric(metric, Part::Spec)).collect();
        if !others.is_empty() {
            kept.push((METRICS, Value::from(others)));
        }
        if let Some(behavior) = spec.shift_remove("behavior").filter(|it| !it.is_null()) {
            kept.push((BEHAVIOR, old_behavior(&behavior)));
        }
    }
    if let Some(status) = autoscaler.get_mut("status").and_then(Value::as_object_mut) {
        status.entry("currentReplicas").or_insert_with(|| 0.into());
        status.entry("desiredReplicas").or_insert_with(|| 0.into());
        let metrics = status.shift_remove("currentMetrics").unwrap_or_default();
        let metrics = metrics.as_array().map_or(&[][..], Vec::as_slice);
        if let Some(percent) = metrics.iter().rev().find_map(|metric| cpu_percent(metric, "current")) {
            status.insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
        }
        if !metrics.is_empty() {
            let metrics: Vec<Value> = metrics.iter().map(|metric| old_metric(metric, Part::Status)).collect();
            kept.push((CURRENT_METRICS, metrics.into()));
        }
        let conditions = status.shift_remove("conditions").unwrap_or_default();
        if conditions.as_array().is_some_and(|conditions| !conditions.is_empty()) {
            kept.push((CONDITIONS, conditions));
        }
    }
    for (name, value) in kept {
        let metadata = object::metadata_mut(&mut autoscaler);
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(name.to_owned(), value.to_string().into());
        }
    }
    autoscaler
}

/// The annotations of an object, read as JSON.
fn annotations(autoscaler: &Value) -> impl Fn(&str) -> Option<Value> + use<> {
    let annotations = object::at(autoscaler, &["metadata", "annotations"]).cloned().unwrap_or_default();
    move |name| serde_json::from_str(annotations.get(name)?.as_str()?).ok()
}

fn drop_annotations(autoscaler: &mut Value, names: &[&str]) {
    let metadata = object::metadata_mut(autoscaler);
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|name, _| !names.contains(&name.as_str()));
    if annotations.is_empty() {
        metadata.shift_remove("annotations");
    }
}

fn keep_annotations(autoscaler: &mut Value, old: &Value, names: &[&str]) {
    if !is_old(autoscaler) {
        return;
    }
    drop_annotations(autoscaler, names);
    for name in names {
        let Some(text) = object::at(old, &["metadata", "annotations", name]) else { continue };
        let metadata = object::metadata_mut(autoscaler);
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert((*name).to_owned(), text.clone());
        }
    }
}

/// A field of an annotation, if all of it has the types that the new version demands. Others may write annotations too.
fn typed(part: &str, fields: &Value, field: &str) -> Option<Value> {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| Schema::built_in("io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"));
    let mut object = json!({ part: fields });
    schema.read(&mut object).ok()?;
    schema.prune(&mut object);
    schema.default(&mut object);
    let causes = schema.validate(&object, None, Vec::new());
    let is_typed = !causes.iter().any(|cause| cause.reason == "FieldValueTypeInvalid");
    object.get_mut(part)?.get_mut(field).filter(|_| is_typed).map(Value::take)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Spec,
    Status,
}

/// A field of a metric: its name in the old version, its place in the new one, and whether the old version writes a zero if there
/// is none.
type Field = (&'static str, &'static [&'static str], bool);
/// The type of a metric, the field that holds it, and its fields in the spec and the status.
type Source = (&'static str, &'static str, &'static [Field], &'static [Field]);

const SOURCES: [Source; 5] = [
    (
        "Resource",
        "resource",
        &[
            ("name", &["name"], false),
            ("targetAverageUtilization", &["target", "averageUtilization"], false),
            ("targetAverageValue", &["target", "averageValue"], false),
        ],
        &[
            ("name", &["name"], false),
            ("currentAverageUtilization", &["current", "averageUtilization"], false),
            ("currentAverageValue", &["current", "averageValue"], true),
        ],
    ),
    (
        "ContainerResource",
        "containerResource",
        &[
            ("name", &["name"], false),
            ("targetAverageUtilization", &["target", "averageUtilization"], false),
            ("targetAverageValue", &["target", "averageValue"], false),
            ("container", &["container"], false),
        ],
        &[
            ("name", &["name"], false),
            ("currentAverageUtilization", &["current", "averageUtilization"], false),
            ("currentAverageValue", &["current", "averageValue"], true),
            ("container", &["container"], false),
        ],
    ),
    (
        "Pods",
        "pods",
        &[
            ("metricName", &["metric", "name"], false),
            ("targetAverageValue", &["target", "averageValue"], true),
            ("selector", &["metric", "selector"], false),
        ],
        &[
            ("metricName", &["metric", "name"], false),
            ("currentAverageValue", &["current", "averageValue"], true),
            ("selector", &["metric", "selector"], false),
        ],
    ),
    (
        "Object",
        "object",
        &[
            ("target", &["describedObject"], false),
            ("metricName", &["metric", "name"], false),
            ("targetValue", &["target", "value"], true),
            ("selector", &["metric", "selector"], false),
            ("averageValue", &["target", "averageValue"], false),
        ],
        &[
            ("target", &["describedObject"], false),
            ("metricName", &["metric", "name"], false),
            ("currentValue", &["current", "value"], true),
            ("selector", &["metric", "selector"], false),
            ("averageValue", &["current", "averageValue"], false),
        ],
    ),
    (
        "External",
        "external",
        &[
            ("metricName", &["metric", "name"], false),
            ("metricSelector", &["metric", "selector"], false),
            ("targetValue", &["target", "value"], false),
            ("targetAverageValue", &["target", "averageValue"], false),
        ],
        &[
            ("metricName", &["metric", "name"], false),
            ("metricSelector", &["metric", "selector"], false),
            ("currentValue", &["current", "value"], true),
            ("currentAverageValue", &["current", "averageValue"], false),
        ],
    ),
];

fn fields_of((_, _, spec, status): &Source, part: Part) -> &'static [Field] {
    if part == Part::Spec { spec } else { status }
}

fn old_metric(metric: &Value, part: Part) -> Value {
    let mut old = json!({"type": metric.get("type")});
    for source in &SOURCES {
        let Some(from) = metric.get(source.1).filter(|from| from.is_object()) else { continue };
        let mut to = Map::new();
        for (name, place, is_always_there) in fields_of(source, part) {
            let value = object::at(from, place).filter(|value| !value.is_null()).cloned();
            if let Some(value) = value.or_else(|| is_always_there.then(|| "0".into())) {
                to.insert((*name).to_owned(), value);
            }
        }
        old[source.1] = to.into();
    }
    old
}

/// The metrics of an annotation, if all of them are metrics.
fn new_metrics(metrics: &Value, part: Part) -> Option<Vec<Value>> {
    let metrics: Option<Vec<Value>> =
        metrics.as_array()?.iter().map(|metric| new_metric(metric, part)).collect();
    let (part, field) = if part == Part::Spec { ("spec", "metrics") } else { ("status", "currentMetrics") };
    let metrics = metrics?;
    if metrics.is_empty() {
        return Some(metrics);
    }
    match typed(part, &json!({ field: metrics }), field)? {
        Value::Array(metrics) => Some(metrics),
        _ => None,
    }
}

fn new_metric(metric: &Value, part: Part) -> Option<Value> {
    metric.as_object()?;
    let within = if part == Part::Spec { "target" } else { "current" };
    let mut new = json!({"type": object::text(metric, &["type"])});
    for source in &SOURCES {
        let Some(from) = metric.get(source.1).filter(|from| !from.is_null()) else { continue };
        let from = from.as_object()?;
        let mut to = json!({ within: {} });
        // A zero that only stands for nothing comes last, and goes.
        let mut fields: Vec<&Field> = fields_of(source, part).iter().collect();
        fields.sort_by_key(|(_, _, is_always_there)| *is_always_there);
        for (name, place, is_always_there) in fields {
            let mut value = from.get(*name).filter(|value| !value.is_null()).cloned();
            if *is_always_there {
                let has_another = to[within] != json!({});
                value = value.filter(|value| !(has_another && value == "0"));
                if value.is_none() && !has_another {
                    value = Some("0".into());
                }
            }
            let Some(value) = value else { continue };
            // Schemas do not tell what a quantity is.
            if name.ends_with("Value") && !value.is_string() && !value.is_number() {
                return None;
            }
            let slot = place.iter().try_fold(&mut to, |at, field| {
                let fields = if at.is_null() {
                    *at = json!({});
                    at
                } else {
                    at
                };
                fields.as_object_mut().map(|fields| fields.entry(*field).or_insert(Value::Null))
            })?;
            *slot = value;
        }
        if part == Part::Spec {
            let has = |field: &str| to[within].get(field).is_some();
            let kind = match source.0 {
                _ if has("averageUtilization") => "Utilization",
                "Object" if !has("averageValue") => "Value",
                "External" if has("value") => "Value",
                _ => "AverageValue",
            };
            to[within]["type"] = kind.into();
        }
        new[source.1] = to;
    }
    Some(new)
}

/// Upstream writes this one with the names of Go's fields.
fn old_behavior(behavior: &Value) -> Value {
    let field = |value: &Value, name: &str| value.get(name).cloned().unwrap_or_default();
    let rules = |name: &str| {
        let rules = behavior.get(name).filter(|rules| rules.is_object())?;
        let policies = rules.get("policies").and_then(Value::as_array).map(|policies| {
            let policies = policies.iter().map(|policy| {
                json!({"Type": field(policy, "type"), "Value": field(policy, "value"), "PeriodSeconds": field(policy, "periodSeconds")})
            });
            policies.collect::<Vec<_>>()
        });
        Some(json!({
            "StabilizationWindowSeconds": field(rules, "stabilizationWindowSeconds"), "SelectPolicy": field(rules, "selectPolicy"),
            "Policies": policies, "Tolerance": field(rules, "tolerance"),
        }))
    };
    json!({"ScaleUp": rules("scaleUp"), "ScaleDown": rules("scaleDown")})
}

/// The same with fields that begin with a small letter.
fn decapitalized(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let (first, rest) = name.split_at(name.chars().next().map_or(0, char::len_utf8));
                (format!("{}{rest}", first.to_lowercase()), decapitalized(value))
            })
            .collect(),
        Value::Array(items) => items.iter().map(decapitalized).collect(),
        value => value.clone(),
    }
}

/// Sets the defaults of the new version.
fn default(autoscaler: &mut Value) {
    let Some(spec) = object_in(autoscaler, "spec") else { return };
    default_to(spec, "minReplicas", 1.into());
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec["metrics"] = json!([cpu(&DEFAULT_PERCENT.into())]);
    }
    let Some(behavior) = spec.get_mut("behavior").filter(|behavior| behavior.is_object()) else { return };
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
    if let Some(up) = object_in(behavior, "scaleUp") {
        default_to(up, "stabilizationWindowSeconds", 0.into());
        default_to(up, "selectPolicy", "Max".into());
        default_to(up, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
    }
    if let Some(down) = object_in(behavior, "scaleDown") {
        default_to(down, "selectPolicy", "Max".into());
        default_to(down, "policies", json!([policy("Percent", 100)]));
    }
}

/// Validates a spec of the new version, which is what kube-apiserver names in its errors for both.
fn validate(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let number = |field: &str| spec.get(field).and_then(Value::as_i64);
    let given = |field: &str| spec.get(field).unwrap_or(&Value::Null);
    let (least, most) = (number("minReplicas"), number("maxReplicas").unwrap_or(0));
    if least.is_some_and(|least| least < 1) {
        let detail = "must be greater than or equal to 1";
        causes.push(Cause::invalid("spec.minReplicas", given("minReplicas"), detail));
    }
    if most < 1 {
        causes.push(Cause::required("spec.maxReplicas", "must be set and greater than 0"));
    } else if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        causes.push(Cause::invalid("spec.maxReplicas", given("maxReplicas"), detail));
    }
    let target = given("scaleTargetRef");
    for field in ["kind", "name"] {
        let (at, text) = (format!("spec.scaleTargetRef.{field}"), object::text(target, &[field]));
        if text.is_empty() {
            causes.push(Cause::required(at, ""));
        } else if let Some(detail) = name_error(NameRule::PathSegment, text) {
            causes.push(Cause::invalid(at, &text.into(), detail));
        }
    }
    let api_version = object::text(target, &["apiVersion"]);
    if object::split_api_version(api_version).0.is_empty() {
        let detail = "apiVersion must specify API group";
        causes.push(Cause::invalid("spec.scaleTargetRef.apiVersion", &api_version.into(), detail));
    }
    let metrics = given("metrics").as_array().into_iter().flatten();
    causes.extend(metrics.zip(0..).filter_map(|(metric, index)| invalid_metric(metric, index)));
    causes
}

fn invalid_metric(metric: &Value, index: usize) -> Option<Cause> {
    let at = format!("spec.metrics[{index}]");
    let kind = object::text(metric, &["type"]);
    let Some((_, field, _, _)) = SOURCES.iter().find(|(known, _, _, _)| *known == kind) else {
        let mut known = SOURCES.map(|(known, _, _, _)| known);
        known.sort_unstable();
        return Some(Cause::unsupported(format!("{at}.type"), &kind.into(), &known));
    };
    let Some(source) = metric.get(*field).filter(|source| source.is_object()) else {
        let detail = "must populate information for the given metric source";
        return Some(Cause::required(format!("{at}.{field}"), detail));
    };
    let target = source.get("target").unwrap_or(&Value::Null);
    let at = |name: &str| format!("{at}.{field}.target.{name}");
    if !matches!(object::text(target, &["type"]), "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        return Some(Cause::invalid(at("type"), target.get("type").unwrap_or(&Value::Null), detail));
    }
    let percent = target.get("averageUtilization")?;
    let is_low = percent.as_i64().is_some_and(|percent| percent < 1);
    is_low.then(|| Cause::invalid(at("averageUtilization"), percent, "must be greater than 0"))
}

/// Most metrics that a table shows.
const SHOWN: usize = 2;

/// The metrics as a table shows them: what is, and what should be.
pub(crate) fn targets(autoscaler: &Value) -> String {
    let new = convert(autoscaler.clone(), NEW);
    let list = |path: &[&str]| object::at(&new, path).and_then(Value::as_array).cloned().unwrap_or_default();
    let (metrics, current) = (list(&["spec", "metrics"]), list(&["status", "currentMetrics"]));
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> = metrics
        .iter()
        .take(SHOWN)
        .enumerate()
        .map(|(index, metric)| shown_metric(metric, current.get(index).unwrap_or(&Value::Null)))
        .collect();
    let more = metrics.len() - shown.len();
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{shown} + {more} more...") }
}

fn shown_metric(metric: &Value, current: &Value) -> String {
    let kind = object::text(metric, &["type"]);
    let Some((_, field, _, _)) = SOURCES.iter().find(|(known, _, _, _)| *known == kind) else {
        return "<unknown type>".to_owned();
    };
    let (is, should) = (object::at(current, &[field, "current"]), object::at(metric, &[field, "target"]));
    let text = |values: Option<&Value>, name: &str| match values?.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if name == "averageUtilization" => Some(format!("{number}%")),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let pair = |name: &str, missing: &str| {
        let is = text(is, name).unwrap_or_else(|| "<unknown>".to_owned());
        format!("{is}/{}", text(should, name).unwrap_or_else(|| missing.to_owned()))
    };
    let has_average = text(should, "averageValue").is_some();
    match kind {
        "Resource" | "ContainerResource" => {
            let name = object::text(metric, &[field, "name"]);
            let values =
                if has_average { pair("averageValue", "") } else { pair("averageUtilization", "<auto>") };
            format!("{name}: {values}")
        }
        "Pods" => pair("averageValue", "<unset>"),
        _ if has_average => format!("{} (avg)", pair("averageValue", "")),
        _ => pair("value", "<unset>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_metrics(metrics: &Value, status: &Value) -> Value {
        json!({
            "apiVersion": NEW, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3, "metrics": metrics},
            "status": {"desiredReplicas": 1, "currentReplicas": 1, "currentMetrics": status},
        })
    }

    #[test]
    fn there_and_back() {
        let selector = json!({"matchLabels": {"a": "b"}});
        let object = json!({"kind": "Service", "name": "web"});
        let metrics = json!([
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
            {"type": "Object", "object": {"describedObject": object, "metric": {"name": "o", "selector": selector}, "target": {"type": "Value", "value": "7"}}},
            {"type": "Object", "object": {"describedObject": object, "metric": {"name": "o"}, "target": {"type": "AverageValue", "averageValue": "7"}}},
            {"type": "External", "external": {"metric": {"name": "e"}, "target": {"type": "AverageValue", "averageValue": "2"}}},
            {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 9}}},
            cpu(&50.into()),
        ]);
        let status = json!([
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "4"}}},
            {"type": "Object", "object": {"describedObject": object, "metric": {"name": "o"}, "current": {"value": "0"}}},
            {"type": "External", "external": {"metric": {"name": "e"}, "current": {"averageValue": "4"}}},
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 33}}},
        ]);
        let mut new = with_metrics(&metrics, &status);
        new["spec"]["behavior"] = json!({"scaleUp": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}});
        let old = convert(new.clone(), OLD);
        assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(old["status"]["currentCPUUtilizationPercentage"], 33);
        assert_eq!(convert(old, NEW), new);
    }

    #[test]
    fn annotations_that_are_not_metrics_are_ignored() {
        for text in [
            "?",
            "{}",
            "[1]",
            r#"[{"type":"Pods","pods":{"metricName":5}}]"#,
            r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":{}}}]"#,
        ] {
            let old = json!({"apiVersion": OLD, "metadata": {"annotations": {METRICS: text, BEHAVIOR: "[]", "mine": "1"}}, "spec": {"maxReplicas": 1}});
            let new = convert(old, NEW);
            assert_eq!(new["spec"], json!({"maxReplicas": 1, "metrics": [cpu(&80.into())]}), "{text}");
            assert_eq!(new["metadata"]["annotations"], json!({"mine": "1"}));
        }
    }

    #[test]
    fn tables_show_two_metrics() {
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}});
        let status =
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 33}}}]);
        let autoscaler = with_metrics(&json!([cpu(&50.into()), pods, pods]), &status);
        assert_eq!(targets(&autoscaler), "cpu: 33%/50%, <unknown>/5 + 1 more...");
    }
}
