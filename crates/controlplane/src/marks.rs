//! Labels and taints that a Node has because of its Host. Pure.
//!
//! The kubelet registers a new Node with them, and this controller keeps them on the Node. Annotations of the Node list
//! what was set because of the Host, so that it is removed again when the Host does not have it any more. What the Machine
//! has, too, is left to core, which writes it from the Machine.

use capstan_api::bootstrap::HostTaint;
use capstan_api::core::Machine;
use capstan_distro::MergedConfig;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

use crate::names::{LABELS_FROM_HOST, TAINTS_FROM_HOST};

/// Labels and taints of the Node of a machine because of its Host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<HostTaint>,
}

impl Marks {
    pub(crate) fn of(machine: &Machine, config: &MergedConfig) -> Self {
        let of_machine = |taint: &HostTaint| {
            machine.spec.taints.iter().any(|other| other.key == taint.key && other.effect == taint.effect)
        };
        let labels = config.labels.iter().filter(|(key, _)| !machine.labels().contains_key(*key));
        Self {
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            taints: config.taints.iter().filter(|taint| !of_machine(taint)).cloned().collect(),
        }
    }

    /// Labels that the kubelet may set on its own Node. It refuses to start with others.
    pub(crate) fn at_registration(&self) -> BTreeMap<String, String> {
        let may_set = |key: &str| {
            let domain = key.split_once('/').map_or("", |(domain, _)| domain);
            let is_in = |parent: &str| {
                domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            !is_in("kubernetes.io") && !is_in("k8s.io")
        };
        let labels = self.labels.iter().filter(|(key, _)| may_set(key));
        labels.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The patch that makes the Node have them; `None` if it has. It applies to the Node that was read only, because the list of
    /// taints is replaced as a whole.
    pub(crate) fn patch(&self, node: &Node) -> Option<Value> {
        let mut annotations = Map::new();
        let taint_names = self.taints.iter().map(|taint| name(&taint.key, &format!("{:?}", taint.effect)));
        note(node, LABELS_FROM_HOST, self.labels.keys().cloned(), &mut annotations);
        note(node, TAINTS_FROM_HOST, taint_names, &mut annotations);
        let (labels, taints) = (self.labels_patch(node), self.taints_patch(node));
        if annotations.is_empty() && labels.is_empty() && taints.is_none() {
            return None;
        }
        let mut patch = json!({"metadata": {
            "resourceVersion": node.resource_version(), "annotations": annotations, "labels": labels,
        }});
        if let Some(taints) = taints {
            patch["spec"] = json!({"taints": taints});
        }
        Some(patch)
    }

    fn labels_patch(&self, node: &Node) -> Map<String, Value> {
        let differs = |(key, value): &(&String, &String)| node.labels().get(*key) != Some(*value);
        let set = self.labels.iter().filter(differs).map(|(key, value)| (key.clone(), json!(value)));
        let gone = |key: &String| !self.labels.contains_key(key) && node.labels().contains_key(key);
        let removed = listed(node, LABELS_FROM_HOST).into_iter().filter(gone).map(|key| (key, Value::Null));
        set.chain(removed).collect()
    }

    /// The new list of taints, if it differs.
    fn taints_patch(&self, node: &Node) -> Option<Vec<Taint>> {
        let current = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let former = listed(node, TAINTS_FROM_HOST);
        let is_it = |taint: &Taint, wanted: &HostTaint| {
            taint.key == wanted.key && taint.effect == format!("{:?}", wanted.effect)
        };
        let stays = |taint: &&Taint| match self.taints.iter().find(|wanted| is_it(taint, wanted)) {
            Some(wanted) => value(taint.value.as_deref()) == value(wanted.value.as_deref()),
            None => !former.contains(&name(&taint.key, &taint.effect)),
        };
        let mut taints: Vec<Taint> = current.iter().filter(stays).cloned().collect();
        for wanted in &self.taints {
            if taints.iter().all(|taint| !is_it(taint, wanted)) {
                let HostTaint { key, value, effect } = wanted.clone();
                taints.push(Taint { key, value, effect: format!("{effect:?}"), time_added: None });
            }
        }
        (taints != current).then_some(taints)
    }
}

/// Kubernetes reads no value and an empty one as the same.
fn value(value: Option<&str>) -> &str {
    value.unwrap_or_default()
}

fn name(key: &str, effect: &str) -> String {
    format!("{key}:{effect}")
}

/// Names in an annotation of a Node.
fn listed(node: &Node, annotation: &str) -> BTreeSet<String> {
    let text = node.annotations().get(annotation).map(String::as_str).unwrap_or_default();
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Adds an annotation with names, if the Node has another one.
fn note(node: &Node, annotation: &str, names: impl Iterator<Item = String>, patch: &mut Map<String, Value>) {
    let names: BTreeSet<String> = names.collect();
    let wanted = (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(","));
    if node.annotations().get(annotation) != wanted.as_ref() {
        patch.insert(annotation.to_owned(), json!(wanted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::bootstrap::{CapstanConfigSpec, HostConfig};
    use capstan_api::core::TaintEffect;
    use capstan_distro::{HostFacts, merge};

    fn marks(labels: &[(&str, &str)], taints: &[(&str, Option<&str>)]) -> Marks {
        let taint = |(key, value): &(&str, Option<&str>)| HostTaint {
            key: (*key).to_owned(),
            value: value.map(str::to_owned),
            effect: TaintEffect::NoSchedule,
        };
        Marks {
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            taints: taints.iter().map(taint).collect(),
        }
    }

    fn node(metadata: &Value, taints: &Value) -> Node {
        serde_json::from_value(json!({"metadata": metadata, "spec": {"taints": taints}})).expect("a Node")
    }

    fn taint(key: &str) -> Value {
        json!({"key": key, "effect": "NoSchedule"})
    }

    #[test]
    fn a_node_gets_what_its_host_has_and_loses_what_it_had() {
        let wanted = marks(&[("rack", "a")], &[("gpu", Some("x"))]);
        let has = json!({"key": "gpu", "value": "x", "effect": "NoSchedule"});
        let listing = json!({LABELS_FROM_HOST: "rack", TAINTS_FROM_HOST: "gpu:NoSchedule"});
        let done = json!({"annotations": listing, "labels": {"rack": "a", "other": "b"}});
        assert_eq!(wanted.patch(&node(&done, &json!([taint("other"), has]))), None);

        let patch = wanted.patch(&node(&json!({"resourceVersion": "7"}), &json!([taint("other")])));
        let patch = patch.expect("a patch");
        assert_eq!(
            patch["metadata"],
            json!({
                "resourceVersion": "7", "annotations": listing, "labels": {"rack": "a"},
            })
        );
        assert_eq!(patch["spec"]["taints"], json!([taint("other"), has]));

        let patch = marks(&[], &[]).patch(&node(&done, &json!([taint("other"), has]))).expect("a patch");
        assert_eq!(patch["metadata"]["annotations"], json!({LABELS_FROM_HOST: null, TAINTS_FROM_HOST: null}));
        assert_eq!(patch["metadata"]["labels"], json!({"rack": null}));
        assert_eq!(patch["spec"]["taints"], json!([taint("other")]));

        let changed = marks(&[("rack", "a")], &[("gpu", Some("y"))]);
        let patch = changed.patch(&node(&done, &json!([has]))).expect("a patch");
        assert_eq!(patch["spec"]["taints"][0]["value"], "y");
        assert_eq!(marks(&[], &[]).patch(&node(&json!({}), &json!([taint("other")]))), None);
    }

    #[test]
    fn what_the_machine_has_is_left_to_core() {
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "m", "labels": {"rack": "b"}},
            "spec": {
                "clusterName": "c", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"},
                "taints": [{"key": "gpu", "effect": "NoSchedule", "propagation": "Always"}],
            },
        }))
        .expect("a Machine");
        let wanted = marks(&[("rack", "a"), ("disk", "nvme")], &[("gpu", None), ("slow", None)]);
        let config = HostConfig { labels: wanted.labels, taints: wanted.taints, ..HostConfig::default() };
        let host = HostFacts { config, ..HostFacts::default() };
        let merged = merge(&CapstanConfigSpec::default(), Some(&host)).expect("a configuration");
        assert_eq!(Marks::of(&machine, &merged), marks(&[("disk", "nvme")], &[("slow", None)]));
    }

    #[test]
    fn a_node_registers_with_labels_that_its_kubelet_may_set() {
        let all = marks(
            &[
                ("disk", "a"),
                ("example.com/disk", "a"),
                ("node.cluster.x-k8s.io/pool", "a"),
                ("evilkubernetes.io/x", "a"),
                ("node-role.kubernetes.io/db", ""),
                ("kubernetes.io/x", ""),
                ("x.k8s.io/y", ""),
            ],
            &[],
        );
        let keys: Vec<String> = all.at_registration().into_keys().collect();
        assert_eq!(keys, ["disk", "evilkubernetes.io/x", "example.com/disk", "node.cluster.x-k8s.io/pool"]);
    }
}
