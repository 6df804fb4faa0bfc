//! LimitRanges: defaults for the resources of containers, and bounds that a new pod must keep. Pods that exist are not checked:
//! their resources do not change.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    call::Call,
    match_criteria::items,
    object,
    quantity::{Quantity, quantities},
    quota::{Usage, total},
    status::{ApiError, Result},
    store::{GroupResource, Stored},
};

/// The resource of LimitRanges.
pub(crate) const RESOURCE: &str = "limitranges";
/// Says what was set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
const CONTAINERS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

/// The LimitRanges that are about a new object.
fn ranges(call: &Call) -> Vec<Arc<Stored>> {
    let resource = &call.resource.name;
    if !resource.group().is_empty() || resource.resource() != "pods" || call.is_exempt {
        return Vec::new();
    }
    call.plane.store.list(&GroupResource::new("", RESOURCE), Some(&call.namespace)).items
}

/// Sets what the containers of a new pod leave open.
pub(crate) fn default(call: &Call, pod: &mut Value) {
    for range in ranges(call) {
        set_defaults(&range.value, pod);
    }
}

/// Rejects a new pod that is out of bounds.
pub(crate) fn validate(call: &Call, pod: &Value) -> Result<()> {
    for range in ranges(call) {
        let wrong = out_of_bounds(&range.value, pod);
        let detail = match &wrong[..] {
            [] => continue,
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        return Err(ApiError::forbidden(&call.resource.name, object::name(pod), &detail));
    }
    Ok(())
}

fn limits(range: &Value) -> &[Value] {
    items(range.get("spec").unwrap_or(&Value::Null), "limits")
}

fn set_defaults(range: &Value, pod: &mut Value) {
    let defaults = |part: &str| {
        let of_containers = limits(range).iter().filter(|it| object::text(it, &["type"]) == "Container");
        let mut amounts = serde_json::Map::new();
        let found = of_containers.filter_map(|limit| limit.get(part).and_then(Value::as_object));
        found.for_each(|found| amounts.extend(found.clone()));
        amounts
    };
    let parts =
        [("requests", "request", defaults("defaultRequest")), ("limits", "limit", defaults("default"))];
    let mut said = Vec::new();
    for (list, word) in CONTAINERS {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|container| container.is_object()) {
            let name = object::text(container, &["name"]).to_owned();
            for (part, noun, amounts) in &parts {
                let mut set = Vec::new();
                for (resource, amount) in amounts {
                    if object::at(container, &["resources", part, resource]).is_none_or(Value::is_null) {
                        set_amount(container, part, resource, amount);
                        set.push(resource.as_str());
                    }
                }
                set.sort_unstable();
                if !set.is_empty() {
                    said.push(format!("{} {noun} for {word} {name}", set.join(", ")));
                }
            }
        }
    }
    if !said.is_empty() {
        let metadata = object::metadata_mut(pod);
        let annotations = metadata.entry("annotations").or_insert(Value::Null);
        if annotations.is_null() {
            *annotations = json!({});
        }
        if annotations.is_object() {
            annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", said.join("; ")).into();
        }
    }
}

/// Sets one amount. What is not an object is rejected later.
fn set_amount(container: &mut Value, part: &str, resource: &str, amount: &Value) {
    let mut place = container;
    for field in ["resources", part] {
        let Some(fields) = place.as_object_mut() else { return };
        place = fields.entry(field).or_insert(Value::Null);
        if place.is_null() {
            *place = json!({});
        }
    }
    if let Some(amounts) = place.as_object_mut() {
        amounts.insert(resource.to_owned(), amount.clone());
    }
}

fn out_of_bounds(range: &Value, pod: &Value) -> Vec<String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut wrong = Vec::new();
    for limit in limits(range) {
        match object::text(limit, &["type"]) {
            "Container" => {
                for container in CONTAINERS.iter().flat_map(|(list, _)| items(spec, list)) {
                    let part = |part: &str| quantities(object::at(container, &["resources", part]));
                    wrong.extend(violations(limit, "Container", &part("requests"), &part("limits")));
                }
            }
            "Pod" => wrong.extend(violations(limit, "Pod", &total(spec, "requests"), &total(spec, "limits"))),
            _ => {}
        }
    }
    wrong
}

fn violations(limit: &Value, kind: &str, requests: &Usage, limits: &Usage) -> Vec<String> {
    let bounds = |part: &str| quantities(limit.get(part));
    let of = |name: &String| (requests.get(name).copied(), limits.get(name).copied());
    let mut wrong = Vec::new();
    for (name, least) in bounds("min") {
        let said = format!("minimum {name} usage per {kind} is {least}");
        match of(&name) {
            (None, _) => wrong.push(format!("{said}.  No request is specified")),
            (Some(request), _) if request < least => wrong.push(format!("{said}, but request is {request}")),
            (_, Some(limit)) if limit < least => wrong.push(format!("{said}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, most) in bounds("max") {
        let said = format!("maximum {name} usage per {kind} is {most}");
        match of(&name) {
            (_, None) => wrong.push(format!("{said}.  No limit is specified")),
            (_, Some(limit)) if limit > most => wrong.push(format!("{said}, but limit is {limit}")),
            (Some(request), _) if request > most => wrong.push(format!("{said}, but request is {request}")),
            _ => {}
        }
    }
    for (name, most) in bounds("maxLimitRequestRatio") {
        let said = format!("{name} max limit to request ratio per {kind} is {most}");
        let is_set = |amount: Option<Quantity>| amount.filter(|amount| !amount.is_zero());
        let (request, limit) = of(&name);
        match (is_set(request), is_set(limit)) {
            (None, _) => wrong.push(format!("{said}, but no request is specified or request is 0")),
            (_, None) => wrong.push(format!("{said}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let ratio = limit.ratio(request);
                if ratio > most.ratio(Quantity::count(1)) {
                    wrong.push(format!("{said}, but provided ratio is {ratio:.6}"));
                }
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(limit: &Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    #[test]
    fn what_containers_leave_open_is_set() {
        let range = range(
            &json!({"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"}}),
        );
        let mut pod = json!({"metadata": {}, "spec": {
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "3"}}}], "initContainers": [{"name": "b"}],
        }});
        set_defaults(&range, &mut pod);
        let a = json!({"limits": {"cpu": "3", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        assert_eq!(pod["spec"]["containers"][0]["resources"], a);
        let b = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        assert_eq!(pod["spec"]["initContainers"][0]["resources"], b);
        let said = "LimitRanger plugin set: cpu request for container a; memory limit for container a; \
                    cpu request for init container b; cpu, memory limit for init container b";
        assert_eq!(pod["metadata"]["annotations"][ANNOTATION], said);
        let mut none = json!({"metadata": {}, "spec": {}});
        set_defaults(&range, &mut none);
        assert_eq!(none, json!({"metadata": {}, "spec": {}}));
    }

    #[test]
    fn bounds_are_kept() {
        let pod = |resources: Value| json!({"spec": {"containers": [{"name": "a", "resources": resources}]}});
        let both =
            |request: &str, limit: &str| pod(json!({"requests": {"cpu": request}, "limits": {"cpu": limit}}));
        for (limit, pod, expected) in [
            (json!({"min": {"cpu": "1"}}), both("1", "1"), None),
            (
                json!({"min": {"cpu": "1"}}),
                pod(json!({})),
                Some("minimum cpu usage per Container is 1.  No request is specified"),
            ),
            (
                json!({"min": {"cpu": "1"}}),
                both("500m", "1"),
                Some("minimum cpu usage per Container is 1, but request is 500m"),
            ),
            (
                json!({"max": {"cpu": "1"}}),
                both("1", "2"),
                Some("maximum cpu usage per Container is 1, but limit is 2"),
            ),
            (
                json!({"max": {"cpu": "1"}}),
                pod(json!({"requests": {"cpu": "1"}})),
                Some("maximum cpu usage per Container is 1.  No limit is specified"),
            ),
            (
                json!({"maxLimitRequestRatio": {"cpu": "2"}}),
                both("1", "3"),
                Some("cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
            ),
            (json!({"maxLimitRequestRatio": {"cpu": "2500m"}}), both("2", "5"), None),
        ] {
            let mut limit = limit;
            limit["type"] = "Container".into();
            let wrong = out_of_bounds(&range(&limit), &pod);
            assert_eq!(wrong, expected.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{limit} {pod}");
        }
        let two = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "1"}}}]}});
        let most = range(&json!({"type": "Pod", "max": {"cpu": "1"}}));
        assert_eq!(out_of_bounds(&most, &two), ["maximum cpu usage per Pod is 1, but limit is 2"]);
    }
}
