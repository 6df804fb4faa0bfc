//! Whether the class and the topology can be used, and the objects that should exist. Pure: the computation is that of
//! `capstan-topology`.

use capstan_api::conditions::{ConditionStatus, get};
use capstan_api::core::{Cluster, ClusterClass};
use capstan_controller::{Error, Result};
use capstan_topology::FieldError;
use capstan_topology::contract::Contract;
use capstan_topology::desired::{self, Computed, Input};
use capstan_topology::upgrade::Hooks;
use capstan_topology::validation;
use capstan_topology::variables::default_and_validate;
use kube::ResourceExt as _;

use super::class_facts::Facts;
use super::names::NameSuffixes;
use super::observe::{Objects, Templates};
use crate::clusterclass::names::VARIABLES_READY;

/// Whether the controller of classes has observed the class. Otherwise gives the reason.
pub(super) fn is_reconciled(class: &ClusterClass) -> std::result::Result<(), String> {
    let not = |why: String| Err(format!("ClusterClass is not successfully reconciled: {why}"));
    let variables = get(class, VARIABLES_READY);
    if variables.is_none_or(|condition| condition.status == ConditionStatus::False) {
        return not(format!("status of {VARIABLES_READY} condition on ClusterClass must be \"True\""));
    }
    let (generation, observed) = (
        class.metadata.generation.unwrap_or_default(),
        class.status.as_ref().and_then(|status| status.observed_generation).unwrap_or_default(),
    );
    if generation != observed {
        return not(format!(
            "ClusterClass.status.observedGeneration must be {generation}, but is {observed}"
        ));
    }
    Ok(())
}

/// The Cluster with the defaults of all variables, if there is nothing wrong with the class and its topology.
///
/// # Errors
/// If the class or the topology is not valid: then a user must change it.
pub(super) fn prepare(cluster: &Cluster, class: &ClusterClass, facts: &Facts) -> Result<Cluster> {
    let (namespace, name) = (class.namespace().unwrap_or_default(), class.name_any());
    valid(&format!("ClusterClass {namespace}/{name}"), &facts.errors)?;
    let mut defaulted = cluster.clone();
    let mut errors = Vec::new();
    if let Some(topology) = &mut defaulted.spec.topology {
        errors = default_and_validate(topology, None, &facts.definitions);
    }
    errors.extend(validation::cluster(&defaulted, Some(class), None));
    valid(&subject(cluster), &errors)?;
    Ok(defaulted)
}

fn subject(cluster: &Cluster) -> String {
    format!("Cluster {}/{}", cluster.namespace().unwrap_or_default(), cluster.name_any())
}

/// Errors of fields as one error.
pub(super) fn valid(subject: &str, errors: &[FieldError]) -> Result<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Err(Error::user(subject, errors.join("; ")))
}

/// Hooks of runtime extensions: none is called.
fn hooks() -> Hooks {
    Hooks::default()
}

/// The objects that the Cluster should have now, and how far an upgrade is.
///
/// # Errors
/// If they cannot be computed: then a user must change the class or the topology.
pub(super) fn compute(
    cluster: &Cluster,
    class: &ClusterClass,
    templates: &Templates,
    objects: &Objects,
    contract: Contract,
) -> Result<Computed> {
    let Some(topology) = &cluster.spec.topology else {
        return Err(Error::user(subject(cluster), "has no spec.topology"));
    };
    let input = Input {
        cluster,
        blueprint: &templates.blueprint(class, topology),
        current: &objects.current,
        contract,
        upgrade_plan: None,
        hooks: &hooks(),
    };
    let uid = cluster.uid().unwrap_or_default();
    desired::compute(&input, &mut NameSuffixes { uid: &uid })
        .map_err(|why| Error::user(subject(cluster), why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn class(generation: i64, status: &Value) -> ClusterClass {
        let template = |kind: &str| json!({"templateRef": {"apiVersion": "g/v1", "kind": kind, "name": "t"}});
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
            "metadata": {"name": "class", "namespace": "ns", "generation": generation},
            "spec": {"infrastructure": template("NTemplate"), "controlPlane": template("PTemplate")},
            "status": status,
        }))
        .expect("a ClusterClass")
    }

    fn ready(status: &str) -> Value {
        json!([{"type": "VariablesReady", "status": status, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    }

    #[test]
    fn a_class_is_used_when_it_was_observed() {
        for (status, expected) in [
            (json!({}), Err("status of VariablesReady condition on ClusterClass must be \"True\"")),
            (
                json!({"observedGeneration": 2, "conditions": ready("False")}),
                Err("status of VariablesReady condition on ClusterClass must be \"True\""),
            ),
            (
                json!({"observedGeneration": 1, "conditions": ready("True")}),
                Err("ClusterClass.status.observedGeneration must be 2, but is 1"),
            ),
            (json!({"observedGeneration": 2, "conditions": ready("True")}), Ok(())),
        ] {
            let expected =
                expected.map_err(|why| format!("ClusterClass is not successfully reconciled: {why}"));
            assert_eq!(is_reconciled(&class(2, &status)), expected, "{status}");
        }
    }
}
