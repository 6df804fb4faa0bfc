//! Cells of the built-in kinds' tables that are more than a field.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    age::{duration, human},
    certificates,
    kinds::autoscaler,
    object,
};

/// How many webhooks a configuration has.
pub(crate) fn webhooks(configuration: &Value, _: Timestamp) -> Value {
    configuration.get("webhooks").and_then(Value::as_array).map_or(0, Vec::len).into()
}

/// How many validations a policy has.
pub(crate) fn validations(policy: &Value, _: Timestamp) -> Value {
    object::at(policy, &["spec", "validations"]).and_then(Value::as_array).map_or(0, Vec::len).into()
}

/// How many mutations a policy has.
pub(crate) fn mutations(policy: &Value, _: Timestamp) -> Value {
    object::at(policy, &["spec", "mutations"]).and_then(Value::as_array).map_or(0, Vec::len).into()
}

/// The kind of parameters of a policy.
pub(crate) fn param_kind(policy: &Value, _: Timestamp) -> Value {
    let text = |field: &str| object::text(policy, &["spec", "paramKind", field]);
    match text("kind") {
        "" => "<unset>".into(),
        kind => format!("{}/{kind}", text("apiVersion")).into(),
    }
}

/// The parameters of a binding.
pub(crate) fn param_ref(binding: &Value, _: Timestamp) -> Value {
    let params = object::at(binding, &["spec", "paramRef"]).unwrap_or(&Value::Null);
    let text = |field: &str| object::text(params, &[field]);
    match (text("namespace"), text("name"), params.get("selector")) {
        (_, "", None) => "<unset>".into(),
        (_, "", Some(selector)) => selector.to_string().into(),
        ("", name, _) => format!("*/{name}").into(),
        (namespace, name, _) => format!("{namespace}/{name}").into(),
    }
}

/// A field that people want to see as absent where it is.
pub(crate) fn text(value: &Value, path: &[&str]) -> Value {
    match object::text(value, path) {
        "" => "<none>".into(),
        text => text.into(),
    }
}

/// A count in the status.
pub(crate) fn number(value: &Value, field: &str) -> Value {
    object::at(value, &["status", field]).cloned().unwrap_or_else(|| 0.into())
}

/// Labels as a selector says them.
pub(crate) fn labels(value: &Value, path: &[&str]) -> Value {
    let labels = object::at(value, path).and_then(Value::as_object).into_iter().flatten();
    let mut words: Vec<_> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    words.sort();
    or_none(words.join(","))
}

fn or_none(text: String) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    object::at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// How long ago it was made.
pub(crate) fn age(value: &Value, now: Timestamp) -> Value {
    human(object::meta_str(value, "creationTimestamp"), now).into()
}

/// When it was made: a time, not an age.
pub(crate) fn created_at(value: &Value, _: Timestamp) -> Value {
    object::meta_str(value, "creationTimestamp").into()
}

pub(crate) fn data_count(value: &Value, _: Timestamp) -> Value {
    let count = |field| value.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    (count("data") + count("binaryData")).into()
}

pub(crate) fn event_last_seen(event: &Value, now: Timestamp) -> Value {
    let times = ["lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp"];
    let seen = times.iter().map(|field| object::text(event, &[field])).find(|time| !time.is_empty());
    human(seen.unwrap_or_else(|| object::meta_str(event, "creationTimestamp")), now).into()
}

pub(crate) fn event_first_seen(event: &Value, now: Timestamp) -> Value {
    let times = ["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"];
    let seen = times.iter().map(|field| object::text(event, &[field])).find(|time| !time.is_empty());
    human(seen.unwrap_or_else(|| object::meta_str(event, "creationTimestamp")), now).into()
}

pub(crate) fn event_count(event: &Value, _: Timestamp) -> Value {
    let counts = [&["series", "count"][..], &["count"], &["deprecatedCount"]];
    let count = counts.iter().find_map(|path| object::at(event, path)?.as_i64()).filter(|count| *count > 0);
    count.unwrap_or(1).to_string().into()
}

/// Which part of an object it is about.
pub(crate) fn event_field(event: &Value, _: Timestamp) -> Value {
    let object = event.get("involvedObject").or_else(|| event.get("regarding")).unwrap_or(&Value::Null);
    object::text(object, &["fieldPath"]).into()
}

/// Who tells, and where from.
pub(crate) fn event_source(event: &Value, _: Timestamp) -> Value {
    let first = |paths: [&[&str]; 3]| {
        paths.map(|path| object::text(event, path)).into_iter().find(|text| !text.is_empty())
    };
    let who = first([&["source", "component"], &["deprecatedSource", "component"], &["reportingComponent"]]);
    let who = who.unwrap_or_else(|| object::text(event, &["reportingController"]));
    match first([&["source", "host"], &["deprecatedSource", "host"], &["reportingInstance"]]) {
        Some(place) => format!("{who}, {place}").into(),
        None => who.into(),
    }
}

pub(crate) fn event_object(event: &Value, _: Timestamp) -> Value {
    let object = event.get("involvedObject").or_else(|| event.get("regarding")).unwrap_or(&Value::Null);
    let (kind, name) = (object::text(object, &["kind"]), object::text(object, &["name"]));
    format!("{}/{name}", kind.to_lowercase()).into()
}

pub(crate) fn event_message(event: &Value, _: Timestamp) -> Value {
    let message = event.get("message").or_else(|| event.get("note")).and_then(Value::as_str);
    message.unwrap_or_default().trim().into()
}

pub(crate) fn node_status(node: &Value, _: Timestamp) -> Value {
    let conditions = object::at(node, &["status", "conditions"]).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|c| object::text(c, &["type"]) == "Ready");
    let mut words = match ready.map(|ready| object::text(ready, &["status"])) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object::at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        words.push_str(",SchedulingDisabled");
    }
    words.into()
}

pub(crate) fn node_roles(node: &Value, _: Timestamp) -> Value {
    let labels = object::at(node, &["metadata", "labels"]).and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    if roles.is_empty() { "<none>".into() } else { roles.join(",").into() }
}

pub(crate) fn node_address(node: &Value, kind: &str) -> Value {
    let mut addresses = items(node, &["status", "addresses"]).iter();
    let found = addresses.find(|address| object::text(address, &["type"]) == kind);
    or_none(found.map(|address| object::text(address, &["address"])).unwrap_or_default().to_owned())
}

pub(crate) fn node_info(node: &Value, field: &str) -> Value {
    match object::text(node, &["status", "nodeInfo", field]) {
        "" => "<unknown>".into(),
        text => text.into(),
    }
}

pub(crate) fn node_kernel(node: &Value, _: Timestamp) -> Value {
    let part = |field| object::text(node, &["status", "nodeInfo", field]);
    match (part("kernelVersion"), part("architecture")) {
        ("", _) => "<unknown>".into(),
        (kernel, "") => kernel.into(),
        (kernel, architecture) => format!("{kernel} ({architecture})").into(),
    }
}

/// How many of the conditions that others set for a pod hold.
pub(crate) fn readiness_gates(pod: &Value, _: Timestamp) -> Value {
    let gates = items(pod, &["spec", "readinessGates"]);
    let conditions = items(pod, &["status", "conditions"]);
    let holds = |gate: &&Value| {
        let kind = object::text(gate, &["conditionType"]);
        let mut of_kind = conditions.iter().filter(|condition| object::text(condition, &["type"]) == kind);
        of_kind.any(|condition| object::text(condition, &["status"]) == "True")
    };
    if gates.is_empty() {
        return "<none>".into();
    }
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len()).into()
}

/// Where a service can be reached from outside.
pub(crate) fn service_external(service: &Value, _: Timestamp) -> Value {
    let mut addresses: Vec<&str> =
        items(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    match object::text(service, &["spec", "type"]) {
        "ExternalName" => return object::text(service, &["spec", "externalName"]).into(),
        "LoadBalancer" => {
            for ingress in items(service, &["status", "loadBalancer", "ingress"]) {
                let names = ["ip", "hostname"].map(|field| object::text(ingress, &[field]));
                addresses.extend(names.into_iter().find(|name| !name.is_empty()));
            }
            if addresses.is_empty() {
                return "<pending>".into();
            }
        }
        _ => {}
    }
    or_none(addresses.join(","))
}

pub(crate) fn service_ports(service: &Value, _: Timestamp) -> Value {
    let number = |port: &Value, field: &str| port.get(field).and_then(Value::as_i64).unwrap_or(0);
    let one = |port: &Value| {
        let protocol = object::text(port, &["protocol"]);
        match (number(port, "port"), number(port, "nodePort")) {
            (port, 0) => format!("{port}/{protocol}"),
            (port, node) => format!("{port}:{node}/{protocol}"),
        }
    };
    let ports: Vec<String> = items(service, &["spec", "ports"]).iter().map(one).collect();
    or_none(ports.join(","))
}

/// A field of each container of a PodTemplate.
pub(crate) fn template_containers(template: &Value, field: &str) -> Value {
    let containers = items(template, &["template", "spec", "containers"]).iter();
    or_none(containers.map(|container| object::text(container, &[field])).collect::<Vec<_>>().join(","))
}

/// The most ports or addresses of an EndpointSlice that are shown.
const SHOWN: usize = 3;

fn first_of(texts: &[String]) -> Value {
    match texts.len() {
        0 => "<unset>".into(),
        count if count > SHOWN => format!("{} + {} more...", texts[..SHOWN].join(","), count - SHOWN).into(),
        _ => texts.join(",").into(),
    }
}

pub(crate) fn slice_ports(slice: &Value, _: Timestamp) -> Value {
    let port = |port: &Value| port.get("port").map_or_else(|| "*".to_owned(), Value::to_string);
    first_of(&items(slice, &["ports"]).iter().map(port).collect::<Vec<_>>())
}

pub(crate) fn slice_endpoints(slice: &Value, _: Timestamp) -> Value {
    let addresses = items(slice, &["endpoints"]).iter().flat_map(|endpoint| items(endpoint, &["addresses"]));
    first_of(&addresses.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
}

pub(crate) fn api_service(service: &Value, _: Timestamp) -> Value {
    match object::at(service, &["spec", "service"]) {
        None | Some(Value::Null) => "Local".into(),
        Some(to) => format!("{}/{}", object::text(to, &["namespace"]), object::text(to, &["name"])).into(),
    }
}

pub(crate) fn api_service_available(service: &Value, _: Timestamp) -> Value {
    let mut conditions = items(service, &["status", "conditions"]).iter();
    let available = conditions.rfind(|condition| object::text(condition, &["type"]) == "Available");
    let Some(available) = available else { return "Unknown".into() };
    match (object::text(available, &["status"]), object::text(available, &["reason"])) {
        ("True", _) => "True".into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}

/// A field of each container of a workload's pods.
pub(crate) fn containers_of(workload: &Value, field: &str) -> Value {
    let containers = items(workload, &["spec", "template", "spec", "containers"]);
    let words: Vec<&str> = containers.iter().map(|container| object::text(container, &[field])).collect();
    words.join(",").into()
}

/// A workload's selector as people write it.
pub(crate) fn workload_selector(workload: &Value, _: Timestamp) -> Value {
    let selector = object::at(workload, &["spec", "selector"]).unwrap_or(&Value::Null);
    let mut words: Vec<String> = match labels(selector, &["matchLabels"]) {
        Value::String(text) if text != "<none>" => vec![text],
        _ => Vec::new(),
    };
    for expression in items(selector, &["matchExpressions"]) {
        let (key, operator) = (object::text(expression, &["key"]), object::text(expression, &["operator"]));
        let mut values: Vec<&str> = items(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        words.push(match operator {
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            operator => format!("{key} {} ({})", operator.to_lowercase(), values.join(",")),
        });
    }
    or_none(words.join(","))
}

pub(crate) fn job_status(job: &Value, _: Timestamp) -> Value {
    let has = |kind: &&str| {
        let mut conditions = items(job, &["status", "conditions"]).iter();
        let condition = conditions.find(|condition| object::text(condition, &["type"]) == *kind);
        condition.is_some_and(|condition| object::text(condition, &["status"]) == "True")
    };
    match ["Complete", "Failed"].into_iter().find(has) {
        Some(end) => end.into(),
        None if object::is_terminating(job) => "Terminating".into(),
        None => ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
            .into_iter()
            .find(has)
            .unwrap_or("Running")
            .into(),
    }
}

pub(crate) fn job_completions(job: &Value, _: Timestamp) -> Value {
    let count = |path: &[&str]| object::at(job, path).and_then(Value::as_i64);
    let done = count(&["status", "succeeded"]).unwrap_or(0);
    match (count(&["spec", "completions"]), count(&["spec", "parallelism"])) {
        (Some(all), _) => format!("{done}/{all}").into(),
        (None, Some(parallel)) if parallel > 1 => format!("{done}/1 of {parallel}").into(),
        (None, _) => format!("{done}/1").into(),
    }
}

pub(crate) fn job_duration(job: &Value, now: Timestamp) -> Value {
    let time = |field| object::text(job, &["status", field]).parse::<Timestamp>().ok();
    let Some(start) = time("startTime") else { return "".into() };
    duration(time("completionTime").unwrap_or(now).as_second() - start.as_second()).into()
}

pub(crate) fn cron_job_suspended(job: &Value, _: Timestamp) -> Value {
    match object::at(job, &["spec", "suspend"]) {
        Some(Value::Bool(true)) => "True".into(),
        Some(Value::Bool(false)) => "False".into(),
        _ => "<unset>".into(),
    }
}

pub(crate) fn cron_job_active(job: &Value, _: Timestamp) -> Value {
    items(job, &["status", "active"]).len().into()
}

pub(crate) fn cron_job_last(job: &Value, now: Timestamp) -> Value {
    match object::text(job, &["status", "lastScheduleTime"]) {
        "" => "<none>".into(),
        time => human(time, now).into(),
    }
}

pub(crate) fn cron_job_containers(job: &Value, field: &str) -> Value {
    containers_of(object::at(job, &["spec", "jobTemplate"]).unwrap_or(&Value::Null), field)
}

/// Whether the priority level of a FlowSchema is missing.
pub(crate) fn flow_schema_dangling(schema: &Value, _: Timestamp) -> Value {
    let mut conditions = items(schema, &["status", "conditions"]).iter();
    let dangling = conditions.find(|condition| object::text(condition, &["type"]) == "Dangling");
    dangling.map_or("?", |condition| object::text(condition, &["status"])).into()
}

/// A field of a priority level with limits.
pub(crate) fn limited(level: &Value, path: &[&str]) -> Value {
    let limited = object::at(level, &["spec", "limited"]).and_then(|limited| object::at(limited, path));
    limited.filter(|value| !value.is_null()).cloned().unwrap_or_else(|| "<none>".into())
}

pub(crate) fn queuing(level: &Value, field: &str) -> Value {
    limited(level, &["limitResponse", "queuing", field])
}

/// A field of the condition of a component.
pub(crate) fn component(component: &Value, field: &str) -> Value {
    let mut conditions = items(component, &["conditions"]).iter();
    let healthy = conditions.find(|condition| object::text(condition, &["type"]) == "Healthy");
    let text = healthy.map_or("", |condition| object::text(condition, &[field]));
    match (field, healthy, text) {
        ("status", None, _) => "Unknown".into(),
        ("status", _, "True") => "Healthy".into(),
        ("status", ..) => "Unhealthy".into(),
        (_, _, text) => text.into(),
    }
}

/// What is used of a quota, and how much it allows: of limits of pods, or of everything else.
pub(crate) fn quota(quota: &Value, of_limits: bool) -> Value {
    let hard = object::at(quota, &["status", "hard"]).and_then(Value::as_object);
    let mut names: Vec<&String> = hard.into_iter().flatten().map(|(name, _)| name).collect();
    names.retain(|name| name.starts_with("limits.") == of_limits);
    names.sort_unstable();
    let of = |part: &str, name: &str| match object::text(quota, &["status", part, name]) {
        "" => "0".to_owned(),
        amount => amount.to_owned(),
    };
    let shown: Vec<String> =
        names.iter().map(|name| format!("{name}: {}/{}", of("used", name), of("hard", name))).collect();
    shown.join(", ").into()
}

pub(crate) fn ingress_class(ingress: &Value, _: Timestamp) -> Value {
    text(ingress, &["spec", "ingressClassName"])
}

pub(crate) fn ingress_hosts(ingress: &Value, _: Timestamp) -> Value {
    let rules = items(ingress, &["spec", "rules"]);
    let hosts: Vec<&str> =
        rules.iter().map(|rule| object::text(rule, &["host"])).filter(|host| !host.is_empty()).collect();
    match hosts.len() {
        0 => "*".into(),
        count if count > SHOWN => {
            format!("{} + {} more...", hosts[..SHOWN].join(","), rules.len() - SHOWN).into()
        }
        _ => hosts.join(",").into(),
    }
}

/// The width of the column of addresses.
const ADDRESS_WIDTH: usize = 16;

pub(crate) fn ingress_address(ingress: &Value, _: Timestamp) -> Value {
    let points = items(ingress, &["status", "loadBalancer", "ingress"]).iter();
    let mut names: Vec<&str> = points
        .filter_map(|point| {
            let names = ["ip", "hostname"].map(|field| object::text(point, &[field]));
            names.into_iter().find(|name| !name.is_empty())
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    let names = names.join(",");
    if names.len() <= ADDRESS_WIDTH {
        return names.into();
    }
    format!("{}...", names.chars().take(ADDRESS_WIDTH - 3).collect::<String>()).into()
}

pub(crate) fn ingress_ports(ingress: &Value, _: Timestamp) -> Value {
    if items(ingress, &["spec", "tls"]).is_empty() { "80".into() } else { "80, 443".into() }
}

pub(crate) fn global_default(class: &Value, _: Timestamp) -> Value {
    (class.get("globalDefault") == Some(&Value::Bool(true))).into()
}

pub(crate) fn csi_drivers(node: &Value, _: Timestamp) -> Value {
    items(node, &["spec", "drivers"]).len().into()
}

pub(crate) fn autoscaler_reference(autoscaler: &Value, _: Timestamp) -> Value {
    let part = |field| object::text(autoscaler, &["spec", "scaleTargetRef", field]);
    format!("{}/{}", part("kind"), part("name")).into()
}

pub(crate) fn autoscaler_targets(autoscaler: &Value, _: Timestamp) -> Value {
    autoscaler::targets(autoscaler).into()
}

pub(crate) fn autoscaler_least(autoscaler: &Value, _: Timestamp) -> Value {
    let least = object::at(autoscaler, &["spec", "minReplicas"]).and_then(Value::as_i64);
    least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string()).into()
}

/// A number, although the column has the type of a text.
pub(crate) fn autoscaler_most(autoscaler: &Value, _: Timestamp) -> Value {
    object::at(autoscaler, &["spec", "maxReplicas"]).cloned().unwrap_or_else(|| 0.into())
}

/// A limit of a disruption budget.
pub(crate) fn budget(budget: &Value, field: &str) -> Value {
    match object::at(budget, &["spec", field]) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(number @ Value::Number(_)) => number.to_string().into(),
        _ => "N/A".into(),
    }
}

/// The names of a binding's subjects of one kind.
pub(crate) fn subjects(binding: &Value, kind: &str) -> Value {
    let named =
        items(binding, &["subjects"]).iter().filter(|subject| object::text(subject, &["kind"]) == kind);
    let words: Vec<String> = named
        .map(|subject| match (object::text(subject, &["namespace"]), object::text(subject, &["name"])) {
            (namespace, name) if kind == "ServiceAccount" => format!("{namespace}/{name}"),
            (_, name) => name.to_owned(),
        })
        .collect();
    words.join(", ").into()
}

fn containers(pod: &Value) -> &[Value] {
    object::at(pod, &["status", "containerStatuses"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn pod_ready(pod: &Value, _: Timestamp) -> Value {
    let ready = containers(pod).iter().filter(|c| c.get("ready") == Some(&Value::Bool(true))).count();
    let total = object::at(pod, &["spec", "containers"]).and_then(Value::as_array).map_or(0, Vec::len);
    format!("{ready}/{total}").into()
}

pub(crate) fn pod_status(pod: &Value, _: Timestamp) -> Value {
    if object::is_terminating(pod) {
        "Terminating".into()
    } else {
        object::text(pod, &["status", "phase"]).into()
    }
}

pub(crate) fn pod_restarts(pod: &Value, _: Timestamp) -> Value {
    let restarts: i64 = containers(pod).iter().filter_map(|c| c.get("restartCount")?.as_i64()).sum();
    restarts.to_string().into()
}

pub(crate) fn deployment_ready(deployment: &Value, _: Timestamp) -> Value {
    let number = |path: &[&str]| object::at(deployment, path).and_then(Value::as_i64).unwrap_or(0);
    json!(format!("{}/{}", number(&["status", "readyReplicas"]), number(&["spec", "replicas"])))
}

pub(crate) fn role_ref(binding: &Value, _: Timestamp) -> Value {
    let part = |field| object::text(binding, &["roleRef", field]);
    format!("{}/{}", part("kind"), part("name")).into()
}

pub(crate) fn request_life(request: &Value, _: Timestamp) -> Value {
    let seconds = object::at(request, &["spec", "expirationSeconds"]).and_then(Value::as_i64);
    seconds.map_or_else(|| "<none>".to_owned(), duration).into()
}

pub(crate) fn request_condition(request: &Value, _: Timestamp) -> Value {
    let has = |kind| certificates::has(request, kind);
    let mut words = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_owned();
    if has("Failed") {
        words.push_str(",Failed");
    }
    if certificates::is_issued(request) {
        words.push_str(",Issued");
    }
    words.into()
}
