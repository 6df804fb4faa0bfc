//! MachineDrainRules: which of them apply to a Machine, and how the first one that applies to a pod treats it. Pure.

use capstan_api::core::{DrainBehavior, MachineDrainRule};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};
use std::collections::BTreeMap;

use crate::error::{Error, Result};

type Labels = BTreeMap<String, String>;

/// The rules that apply to one Machine, in the order in which they are tried: by name.
#[derive(Clone, Debug, Default)]
pub struct DrainRules(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    treatment: Treatment,
    /// One matching entry is enough; without entries the rule applies to all pods.
    pods: Vec<PodSelectors>,
}

#[derive(Clone, Debug)]
struct PodSelectors {
    pods: Selector,
    namespaces: Selector,
}

/// How a pod is treated by a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It is evicted, after all pods with a lower order.
    Drain { order: i32 },
    /// It stays.
    Skip,
    /// It is waited for.
    WaitCompleted,
}

impl Treatment {
    /// Of a pod that no rule applies to.
    pub(super) const DEFAULT: Self = Self::Drain { order: 0 };
}

impl DrainRules {
    /// Those of `rules` that apply to a Machine with these labels, in a Cluster with these labels.
    ///
    /// # Errors
    /// If a selector of any rule is invalid: it is not known whether that rule applies.
    pub fn of_machine<'a>(
        rules: impl IntoIterator<Item = &'a MachineDrainRule>,
        machine: &Labels,
        cluster: &Labels,
    ) -> Result<Self> {
        let mut applying = BTreeMap::new();
        for rule in rules {
            let compiled = Rule::compile(rule)?;
            if applies_to_machine(rule, machine, cluster)? {
                applying.insert(rule.name_any(), compiled);
            }
        }
        Ok(Self(applying.into_values().collect()))
    }

    /// Whether a rule asks for labels of namespaces.
    pub(super) fn need_namespaces(&self) -> bool {
        let mut selectors = self.0.iter().flat_map(|rule| &rule.pods);
        selectors.any(|selectors| !selectors.namespaces.selects_all())
    }

    /// The treatment of a pod in a namespace with these labels.
    pub(super) fn treatment(&self, pod: &Pod, namespace: &Labels) -> Treatment {
        let mut rules = self.0.iter();
        let first = rules.find(|rule| {
            rule.pods.is_empty()
                || rule.pods.iter().any(|selectors| {
                    selectors.pods.matches(pod.labels()) && selectors.namespaces.matches(namespace)
                })
        });
        first.map_or(Treatment::DEFAULT, |rule| rule.treatment)
    }
}

impl Rule {
    fn compile(rule: &MachineDrainRule) -> Result<Self> {
        let drain = &rule.spec.drain;
        let treatment = match drain.behavior {
            DrainBehavior::Drain => Treatment::Drain { order: drain.order.unwrap_or(0) },
            DrainBehavior::Skip => Treatment::Skip,
            DrainBehavior::WaitCompleted => Treatment::WaitCompleted,
        };
        let compiled = rule.spec.pods.iter().enumerate().map(|(index, entry)| {
            let field = |name: &str| format!("pods[{index}].{name}");
            Ok(PodSelectors {
                pods: selector(rule, entry.selector.as_ref(), || field("selector"))?,
                namespaces: selector(rule, entry.namespace_selector.as_ref(), || field("namespaceSelector"))?,
            })
        });
        Ok(Self { treatment, pods: compiled.collect::<Result<_>>()? })
    }
}

fn applies_to_machine(rule: &MachineDrainRule, machine: &Labels, cluster: &Labels) -> Result<bool> {
    let mut applies = rule.spec.machines.is_empty();
    // All of them, also after one that matches: an invalid selector is an error wherever it is.
    for (index, entry) in rule.spec.machines.iter().enumerate() {
        let field = |name: &str| format!("machines[{index}].{name}");
        let machines = selector(rule, entry.selector.as_ref(), || field("selector"))?;
        let clusters = selector(rule, entry.cluster_selector.as_ref(), || field("clusterSelector"))?;
        applies |= machines.matches(machine) && clusters.matches(cluster);
    }
    Ok(applies)
}

/// A missing selector selects everything.
fn selector(
    rule: &MachineDrainRule,
    selector: Option<&LabelSelector>,
    field: impl Fn() -> String,
) -> Result<Selector> {
    let Some(selector) = selector else { return Ok(Selector::default()) };
    Selector::try_from(selector.clone()).map_err(|problem| {
        let rule = format!("{}/{}", rule.namespace().unwrap_or_default(), rule.name_any());
        Error::user(format!("MachineDrainRule {rule} spec.{}", field()), problem.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn rule(name: &str, spec: &Value) -> MachineDrainRule {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        }))
        .expect("a rule")
    }

    fn labels(text: &str) -> Labels {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn pod(text: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"labels": labels(text)}})).expect("a pod")
    }

    fn matching(text: &str) -> Value {
        json!({"matchLabels": labels(text)})
    }

    #[test]
    fn a_rule_applies_to_machines_that_one_entry_selects() {
        let skip = json!({"behavior": "Skip"});
        for (machines, applies) in [
            (json!([]), true),
            (json!([{"selector": matching("role=web")}]), true),
            (json!([{"selector": matching("role=db")}]), false),
            (json!([{"clusterSelector": matching("env=test")}]), true),
            (json!([{"selector": matching("role=web"), "clusterSelector": matching("env=live")}]), false),
            (json!([{"selector": matching("role=db")}, {"selector": matching("role=web")}]), true),
            (json!([{"selector": {}}]), true),
        ] {
            let rules = [rule("a", &json!({"drain": skip, "machines": machines}))];
            let rules =
                DrainRules::of_machine(&rules, &labels("role=web"), &labels("env=test")).expect("rules");
            let expected = if applies { Treatment::Skip } else { Treatment::DEFAULT };
            assert_eq!(rules.treatment(&pod(""), &labels("")), expected, "{machines}");
        }
    }

    #[test]
    fn the_first_rule_by_name_that_applies_to_a_pod_decides() {
        let drain = |order: i32| json!({"behavior": "Drain", "order": order});
        let rules = [
            rule("c", &json!({"drain": drain(7)})),
            rule(
                "b",
                &json!({"drain": {"behavior": "WaitCompleted"}, "pods": [
                {"selector": matching("app=job"), "namespaceSelector": matching("tier=batch")}]}),
            ),
            rule(
                "a",
                &json!({"drain": drain(-3), "pods": [
                {"selector": matching("app=web")}, {"namespaceSelector": matching("tier=front")}]}),
            ),
        ];
        let all = DrainRules::of_machine(&rules, &labels(""), &labels("")).expect("rules");
        assert!(all.need_namespaces());
        for (of_pod, of_namespace, expected) in [
            ("app=web", "", Treatment::Drain { order: -3 }),
            ("app=db", "tier=front", Treatment::Drain { order: -3 }),
            ("app=job", "tier=batch", Treatment::WaitCompleted),
            ("app=job", "", Treatment::Drain { order: 7 }),
            ("", "", Treatment::Drain { order: 7 }),
        ] {
            let treatment = all.treatment(&pod(of_pod), &labels(of_namespace));
            assert_eq!(treatment, expected, "{of_pod} in {of_namespace}");
        }
        let some = DrainRules::of_machine(&rules[..1], &labels(""), &labels("")).expect("rules");
        assert!(!some.need_namespaces());
        let none = DrainRules::default();
        assert_eq!(none.treatment(&pod(""), &labels("")), Treatment::DEFAULT);
        assert!(!none.need_namespaces());
    }

    #[test]
    fn an_invalid_selector_is_named_wherever_it_is() {
        let invalid = json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]});
        for (spec, field) in [
            (json!({"pods": [{"selector": invalid}]}), "spec.pods[0].selector"),
            (
                json!({"pods": [{"selector": {}}, {"namespaceSelector": invalid}]}),
                "spec.pods[1].namespaceSelector",
            ),
            (json!({"machines": [{"selector": {}}, {"selector": invalid}]}), "spec.machines[1].selector"),
            (
                json!({"machines": [{"clusterSelector": invalid}, {"selector": matching("a=b")}]}),
                "spec.machines[0].clusterSelector",
            ),
        ] {
            let mut spec = spec;
            spec["drain"] = json!({"behavior": "Skip"});
            let failed = DrainRules::of_machine(&[rule("r", &spec)], &labels(""), &labels(""));
            let error = failed.expect_err("an error").to_string();
            assert!(error.contains(&format!("MachineDrainRule default/r {field}")), "{error}");
        }
    }
}
