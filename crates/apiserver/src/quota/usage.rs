//! What an object uses of the resources that quotas limit. Data in, data out.

use std::collections::BTreeMap;

use serde_json::Value;

use super::names::count_names;
use crate::{
    match_criteria::items,
    object,
    quantity::{Quantity, quantities},
    store::GroupResource,
};

/// Amounts by name.
pub(crate) type Usage = BTreeMap<String, Quantity>;

/// Resources of pods that are limited under their own name and under two longer ones.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Prefix of the names of large pages.
const PAGES: &str = "hugepages-";

/// What an object uses, and what else quotas ask about it.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(crate) usage: Usage,
    pub(crate) pod: Option<PodFacts>,
}

/// What scopes of quotas ask about a pod.
#[derive(Debug)]
pub(crate) struct PodFacts {
    pub(super) is_terminating: bool,
    pub(super) is_best_effort: bool,
    pub(super) has_foreign_affinity: bool,
    pub(super) priority_class: String,
    /// Whether the pod as a whole has resources.
    pub(super) has_resources: bool,
    /// The containers, with the names of what they set.
    pub(super) containers: Vec<(String, Vec<String>)>,
}

/// What an object of a resource uses.
pub(crate) fn charge(resource: &GroupResource, object: &Value) -> Charge {
    if !resource.group().is_empty() {
        return Charge { usage: counted(resource), pod: None };
    }
    match resource.resource() {
        "pods" => pod(object),
        "services" => {
            Charge { usage: counted(resource).into_iter().chain(service(object)).collect(), pod: None }
        }
        _ => Charge { usage: counted(resource), pod: None },
    }
}

fn counted(resource: &GroupResource) -> Usage {
    count_names(resource).into_iter().map(|name| (name, Quantity::count(1))).collect()
}

fn service(service: &Value) -> Vec<(String, Quantity)> {
    let spec = service.get("spec").unwrap_or(&Value::Null);
    let ports = items(spec, "ports");
    let named = ports.iter().filter(|port| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) != 0);
    let allocates = spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    let (ports, balancers) = match object::text(spec, &["type"]) {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if allocates => (ports.len(), 1),
        "LoadBalancer" => (named.count(), 1),
        _ => (0, 0),
    };
    let counts = [("services.nodeports", ports), ("services.loadbalancers", balancers)];
    counts.map(|(name, count)| (name.to_owned(), Quantity::count(count))).into()
}

fn pod(pod: &Value) -> Charge {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut usage = Usage::from([("count/pods".to_owned(), Quantity::count(1))]);
    let is_over = matches!(object::text(pod, &["status", "phase"]), "Succeeded" | "Failed");
    // A pod that is being deleted only waits for finalizers: nothing runs it.
    if !is_over && !object::is_terminating(pod) {
        usage.insert("pods".to_owned(), Quantity::count(1));
        usage.extend(compute(&total(spec, "requests"), &total(spec, "limits")));
    }
    let whole = spec.get("resources").unwrap_or(&Value::Null);
    let all = || items(spec, "containers").iter().chain(items(spec, "initContainers"));
    let facts = PodFacts {
        is_terminating: spec.get("activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|it| it >= 0),
        is_best_effort: !sets_compute(whole)
            && !all().any(|container| sets_compute(container.get("resources").unwrap_or(&Value::Null))),
        has_foreign_affinity: has_foreign_affinity(spec),
        priority_class: object::text(spec, &["priorityClassName"]).to_owned(),
        has_resources: !of(whole, "requests").is_empty() || !of(whole, "limits").is_empty(),
        containers: all()
            .map(|container| {
                let resources = container.get("resources").unwrap_or(&Value::Null);
                let set = compute(&of(resources, "requests"), &of(resources, "limits"));
                (object::text(container, &["name"]).to_owned(), set.into_keys().collect())
            })
            .collect(),
    };
    Charge { usage, pod: Some(facts) }
}

fn of(resources: &Value, part: &str) -> Usage {
    quantities(resources.get(part))
}

/// Whether cpu or memory is requested or limited.
fn sets_compute(resources: &Value) -> bool {
    ["requests", "limits"].iter().any(|part| {
        let amounts = of(resources, part);
        ["cpu", "memory"].iter().any(|name| amounts.get(*name).is_some_and(|amount| !amount.is_zero()))
    })
}

/// The names under which requests and limits are limited.
fn compute(requests: &Usage, limits: &Usage) -> Usage {
    let mut usage = Usage::new();
    for (name, amount) in requests {
        let is_native = !name.contains('/') || name.contains("kubernetes.io/");
        if COMPUTE.contains(&name.as_str()) || name.starts_with(PAGES) {
            usage.insert(name.clone(), *amount);
            usage.insert(format!("requests.{name}"), *amount);
        } else if !is_native {
            usage.insert(format!("requests.{name}"), *amount);
        }
    }
    let limited = limits.iter().filter(|(name, _)| COMPUTE.contains(&name.as_str()));
    usage.extend(limited.map(|(name, amount)| (format!("limits.{name}"), *amount)));
    usage
}

/// What a pod needs: all containers at once, or the most that it needs while it starts.
pub(crate) fn total(spec: &Value, part: &str) -> Usage {
    let resources = |container: &Value| of(container.get("resources").unwrap_or(&Value::Null), part);
    let mut sum = Usage::new();
    for container in items(spec, "containers") {
        add(&mut sum, &resources(container));
    }
    let (mut sidecars, mut start) = (Usage::new(), Usage::new());
    for container in items(spec, "initContainers") {
        let own = resources(container);
        if object::text(container, &["restartPolicy"]) == "Always" {
            // It keeps running beside the others.
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            most(&mut start, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, &own);
            most(&mut start, &now);
        }
    }
    most(&mut sum, &start);
    let whole = of(spec.get("resources").unwrap_or(&Value::Null), part);
    for (name, amount) in whole {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with(PAGES) {
            sum.insert(name, amount);
        }
    }
    for (name, amount) in quantities(spec.get("overhead")) {
        match (part, sum.get_mut(&name)) {
            (_, Some(total)) => *total = total.plus(amount),
            ("requests", None) => drop(sum.insert(name, amount)),
            _ => {}
        }
    }
    sum
}

/// Adds amounts to others.
pub(crate) fn add(sum: &mut Usage, more: &Usage) {
    for (name, amount) in more {
        let total = sum.get(name).copied().unwrap_or(Quantity::ZERO).plus(*amount);
        sum.insert(name.clone(), total);
    }
}

fn most(sum: &mut Usage, other: &Usage) {
    for (name, amount) in other {
        let greater = sum.get(name).is_none_or(|known| known < amount);
        if greater {
            sum.insert(name.clone(), *amount);
        }
    }
}

/// Whether affinity looks at pods of other namespaces.
fn has_foreign_affinity(spec: &Value) -> bool {
    let is_foreign = |term: &Value| {
        !items(term, "namespaces").is_empty() || term.get("namespaceSelector").is_some_and(|it| !it.is_null())
    };
    let affinity = spec.get("affinity").unwrap_or(&Value::Null);
    ["podAffinity", "podAntiAffinity"].iter().filter_map(|field| affinity.get(field)).any(|affinity| {
        items(affinity, "requiredDuringSchedulingIgnoredDuringExecution").iter().any(is_foreign)
            || items(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|term| term.get("podAffinityTerm").is_some_and(is_foreign))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(usage: &Usage) -> Vec<String> {
        usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    fn container(requests: &Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests}})
    }

    #[test]
    fn a_pod_uses_what_its_containers_request() {
        let limited = json!({"name": "d", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 2, "example.com/dongle": 1}}});
        let spec = json!({"containers": [container(&json!({"cpu": "500m", "memory": "1Gi", "example.com/dongle": "3", "hugepages-2Mi": "4Mi"})), limited]});
        let charge = charge(&GroupResource::new("", "pods"), &json!({"spec": spec}));
        assert_eq!(
            shown(&charge.usage),
            [
                "count/pods=1",
                "cpu=1500m",
                "hugepages-2Mi=4Mi",
                "limits.cpu=2",
                "memory=1Gi",
                "pods=1",
                "requests.cpu=1500m",
                "requests.example.com/dongle=3",
                "requests.hugepages-2Mi=4Mi",
                "requests.memory=1Gi",
            ]
        );
    }

    #[test]
    fn a_pod_that_ended_is_only_counted() {
        let spec = json!({"containers": [container(&json!({"cpu": 1}))]});
        for pod in [
            json!({"spec": spec, "status": {"phase": "Failed"}}),
            json!({"spec": spec, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ] {
            assert_eq!(shown(&charge(&GroupResource::new("", "pods"), &pod).usage), ["count/pods=1"]);
        }
    }

    #[test]
    fn starting_and_sidecars_count() {
        let mut sidecar = container(&json!({"cpu": "1"}));
        sidecar["restartPolicy"] = "Always".into();
        let first = container(&json!({"cpu": "5"}));
        let main = container(&json!({"cpu": "2"}));
        for (init, whole, expected) in [
            (json!([]), json!({}), "cpu=2"),
            (json!([first]), json!({}), "cpu=5"),
            (json!([sidecar]), json!({}), "cpu=3"),
            (json!([sidecar, first]), json!({}), "cpu=6"),
            (json!([first]), json!({"requests": {"cpu": "7"}}), "cpu=7"),
        ] {
            let spec = json!({"containers": [main], "initContainers": init, "resources": whole});
            assert_eq!(shown(&total(&spec, "requests")), [expected], "{spec}");
        }
        let spec = json!({"containers": [main], "overhead": {"cpu": "1", "memory": "1Mi"}});
        assert_eq!(shown(&total(&spec, "requests")), ["cpu=3", "memory=1Mi"]);
        assert_eq!(shown(&total(&spec, "limits")), [""; 0]);
    }

    #[test]
    fn services_use_ports_of_nodes() {
        let used = |spec: Value| {
            let usage = charge(&GroupResource::new("", "services"), &json!({"spec": spec})).usage;
            ["services.nodeports", "services.loadbalancers"].map(|name| usage[name].to_string())
        };
        let ports = json!([{"nodePort": 30000}, {}]);
        assert_eq!(used(json!({"type": "ClusterIP", "ports": ports})), ["0", "0"]);
        assert_eq!(used(json!({"type": "NodePort", "ports": ports})), ["2", "0"]);
        assert_eq!(used(json!({"type": "LoadBalancer", "ports": ports})), ["2", "1"]);
        let none = json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false});
        assert_eq!(used(none), ["1", "1"]);
    }

    #[test]
    fn affinity_to_other_namespaces_is_seen() {
        let term = json!({"namespaces": ["other"]});
        let affinity = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}});
        assert!(has_foreign_affinity(&json!({"affinity": affinity})));
        let own = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}});
        assert!(!has_foreign_affinity(&json!({"affinity": own})));
    }
}
