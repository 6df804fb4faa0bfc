//! What a ResourceQuota limits, and whether a write exceeds it. Data in, data out: nothing here reads the store.

use std::collections::BTreeMap;

use serde_json::Value;

use super::usage::{Charge, Usage};
use crate::{
    match_criteria::items,
    object,
    quantity::{Quantity, quantities},
};

/// Names that each container of a pod must set if a quota limits them.
const NEEDED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// A condition on pods.
#[derive(Debug)]
struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Scope {
    fn contains(&self, charge: &Charge) -> bool {
        let Some(pod) = &charge.pod else { return false };
        match self.name.as_str() {
            "Terminating" => pod.is_terminating,
            "NotTerminating" => !pod.is_terminating,
            "BestEffort" => pod.is_best_effort,
            "NotBestEffort" => !pod.is_best_effort,
            "CrossNamespacePodAffinity" => pod.has_foreign_affinity,
            "PriorityClass" => {
                let class = &pod.priority_class;
                match self.operator.as_str() {
                    "In" => self.values.contains(class),
                    "NotIn" => !self.values.contains(class),
                    "DoesNotExist" => class.is_empty(),
                    _ => !class.is_empty(),
                }
            }
            _ => false,
        }
    }
}

/// A ResourceQuota.
#[derive(Debug)]
pub(crate) struct Limits {
    name: String,
    hard: Usage,
    scopes: Vec<Scope>,
}

impl Limits {
    /// Reads a quota. Values that are not quantities do not limit: they have been rejected before.
    pub(crate) fn of(quota: &Value) -> Self {
        let spec = quota.get("spec").unwrap_or(&Value::Null);
        let plain = items(spec, "scopes").iter().filter_map(Value::as_str).map(|name| Scope {
            name: name.to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        let selector = spec.get("scopeSelector").unwrap_or(&Value::Null);
        let selected = items(selector, "matchExpressions").iter().map(|requirement| {
            let values = items(requirement, "values").iter().filter_map(Value::as_str);
            Scope {
                name: object::text(requirement, &["scopeName"]).to_owned(),
                operator: object::text(requirement, &["operator"]).to_owned(),
                values: values.map(str::to_owned).collect(),
            }
        });
        Self {
            name: object::name(quota).to_owned(),
            hard: quantities(spec.get("hard")),
            scopes: plain.chain(selected).collect(),
        }
    }

    /// The names that are limited.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.hard.keys().map(String::as_str)
    }

    /// Whether it is only about some pods.
    pub(crate) fn is_scoped(&self) -> bool {
        !self.scopes.is_empty()
    }

    /// Whether the object counts for this quota at all.
    pub(crate) fn contains(&self, charge: &Charge) -> bool {
        self.scopes.iter().all(|scope| scope.contains(charge))
    }

    /// What a write adds to names that this quota limits.
    pub(crate) fn requested(&self, charge: &Charge, before: Option<&Charge>) -> Usage {
        if !self.contains(charge) {
            return Usage::new();
        }
        let before = before.filter(|before| self.contains(before));
        let added = |(name, amount): (&String, &Quantity)| {
            let old = before.and_then(|before| before.usage.get(name)).copied().unwrap_or(Quantity::ZERO);
            let added = amount.minus(old);
            let counts = self.hard.contains_key(name) && !added.is_zero() && !added.is_negative();
            counts.then(|| (name.clone(), added))
        };
        charge.usage.iter().filter_map(added).collect()
    }

    /// Says what the containers of a pod must set.
    pub(crate) fn missing(&self, charge: &Charge) -> Option<String> {
        let pod = charge.pod.as_ref().filter(|pod| !pod.has_resources && self.contains(charge))?;
        let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for needed in NEEDED.into_iter().filter(|name| self.hard.contains_key(*name)) {
            for (container, names) in &pod.containers {
                if !names.iter().any(|name| name == needed) {
                    missing.entry(needed).or_default().push(container);
                }
            }
        }
        let said = missing.iter_mut().map(|(name, containers)| {
            containers.sort_unstable();
            containers.dedup();
            format!("{name} for: {}", containers.join(","))
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| format!("failed quota: {}: must specify {}", self.name, said.join("; ")))
    }

    /// Says by what a write exceeds the quota.
    pub(crate) fn exceeded(&self, requested: &Usage, used: &Usage) -> Option<String> {
        let of = |usage: &Usage, name: &str| usage.get(name).copied().unwrap_or(Quantity::ZERO);
        let exceeded: Vec<&String> = requested
            .iter()
            .filter(|(name, amount)| {
                self.hard.get(*name).is_some_and(|hard| of(used, name).plus(**amount) > *hard)
            })
            .map(|(name, _)| name)
            .collect();
        if exceeded.is_empty() {
            return None;
        }
        let shown = |usage: &Usage| {
            let parts: Vec<String> =
                exceeded.iter().map(|name| format!("{name}={}", of(usage, name))).collect();
            parts.join(",")
        };
        Some(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            self.name,
            shown(requested),
            shown(used),
            shown(&self.hard),
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::usage::charge, *};
    use crate::store::GroupResource;

    fn limits(spec: &Value) -> Limits {
        Limits::of(&json!({"metadata": {"name": "q"}, "spec": spec}))
    }

    fn pod(spec: &Value) -> Charge {
        charge(&GroupResource::new("", "pods"), &json!({"spec": spec}))
    }

    #[test]
    fn a_write_over_the_limit_is_rejected_with_its_numbers() {
        let limits = limits(&json!({"hard": {"pods": "2", "cpu": "1", "secrets": "1"}}));
        let used = quantities(Some(&json!({"pods": "2", "cpu": "500m"})));
        let requested = quantities(Some(&json!({"pods": "1", "cpu": "600m"})));
        let message =
            "exceeded quota: q, requested: cpu=600m,pods=1, used: cpu=500m,pods=2, limited: cpu=1,pods=2";
        assert_eq!(limits.exceeded(&requested, &used).as_deref(), Some(message));
        let fits = quantities(Some(&json!({"cpu": "500m"})));
        assert_eq!(limits.exceeded(&fits, &used), None);
    }

    #[test]
    fn scopes_choose_pods() {
        let quick = json!({"activeDeadlineSeconds": 1, "containers": []});
        let slow = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "priorityClassName": "high"});
        let is_in = |scope: Value, pod: &Charge| limits(&scope).contains(pod);
        let (quick, slow) = (pod(&quick), pod(&slow));
        for (scope, expected) in [
            ("Terminating", (true, false)),
            ("NotTerminating", (false, true)),
            ("BestEffort", (true, false)),
            ("NotBestEffort", (false, true)),
            ("PriorityClass", (false, true)),
            ("CrossNamespacePodAffinity", (false, false)),
        ] {
            let scopes = json!({"scopes": [scope]});
            assert_eq!((is_in(scopes.clone(), &quick), is_in(scopes, &slow)), expected, "{scope}");
        }
        for (operator, values, expected) in [
            ("In", json!(["high"]), (false, true)),
            ("NotIn", json!(["high"]), (true, false)),
            ("Exists", json!([]), (false, true)),
            ("DoesNotExist", json!([]), (true, false)),
        ] {
            let selector = json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": operator, "values": values},
            ]}});
            assert_eq!((is_in(selector.clone(), &quick), is_in(selector, &slow)), expected, "{operator}");
        }
        let secret = charge(&GroupResource::new("", "secrets"), &json!({}));
        assert!(!is_in(json!({"scopes": ["NotTerminating"]}), &secret), "only pods are in scopes");
    }

    #[test]
    fn containers_must_set_what_is_limited() {
        let limits = limits(&json!({"hard": {"limits.cpu": "2", "requests.memory": "1Gi", "pods": "1"}}));
        let containers = json!([{"name": "b"}, {"name": "a", "resources": {"limits": {"cpu": "1"}}}]);
        let message = "failed quota: q: must specify limits.cpu for: b; requests.memory for: a,b";
        assert_eq!(limits.missing(&pod(&json!({"containers": containers}))).as_deref(), Some(message));
    }

    #[test]
    fn an_update_requests_only_what_it_adds() {
        let limits = limits(&json!({"hard": {"services.nodeports": "5", "services": "1"}}));
        let service = |kind: &str, ports: Value| {
            charge(&GroupResource::new("", "services"), &json!({"spec": {"type": kind, "ports": ports}}))
        };
        let (before, after) = (service("NodePort", json!([{}])), service("NodePort", json!([{}, {}, {}])));
        let requested = limits.requested(&after, Some(&before));
        assert_eq!(requested, quantities(Some(&json!({"services.nodeports": "2"}))));
        assert!(limits.requested(&before, Some(&after)).is_empty());
        assert_eq!(limits.requested(&after, None).len(), 2);
    }
}
