//! What upstream's webhook fills in. Here it is filled in by the controller, which does not need one. Pure.

use capstan_api::core::{
    MachineDeployment, MachineDeploymentRolloutStrategy, MachineSet, RollingUpdateLimits, RolloutStrategyType,
};
use capstan_api::meta::labels;
use capstan_controller::{Error, Result};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

use super::super::names::DESIRED_REPLICAS;
use crate::replicas;

/// Fills in the number of Machines, which depends on the MachineSets.
///
/// # Errors
/// If an annotation of the autoscaler is no number.
pub(crate) fn fill_replicas(deployment: &mut MachineDeployment, sets: &[MachineSet]) -> Result<()> {
    if deployment.spec.replicas.is_none() {
        let number = replicas::unsaid(deployment.annotations(), desired_before(sets)).map_err(|error| {
            let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
            Error::user(format!("MachineDeployment {namespace}/{name}"), error.to_string())
        })?;
        deployment.spec.replicas = Some(number);
    }
    Ok(())
}

/// The number of Machines that the MachineSets were last made for; nothing if there are none.
fn desired_before(sets: &[MachineSet]) -> Option<i32> {
    let used: Vec<&MachineSet> = sets.iter().filter(|set| set.spec.replicas.unwrap_or(0) > 0).collect();
    let noted = used.iter().filter_map(|set| set.annotations().get(DESIRED_REPLICAS)?.parse().ok());
    let sum = used.iter().map(|set| set.spec.replicas.unwrap_or(0)).fold(0, i32::saturating_add);
    (!sets.is_empty()).then(|| noted.max().unwrap_or(sum))
}

/// Fills in what else is unset.
pub(crate) fn fill(deployment: &mut MachineDeployment) {
    let name = deployment.name_any();
    let cluster = deployment.spec.cluster_name.clone();
    deployment
        .metadata
        .labels
        .get_or_insert_default()
        .insert(labels::CLUSTER_NAME.to_owned(), cluster.clone());

    let spec = &mut deployment.spec;
    let rollout = spec.rollout.get_or_insert_default();
    let strategy = rollout.strategy.get_or_insert(MachineDeploymentRolloutStrategy {
        type_: RolloutStrategyType::RollingUpdate,
        rolling_update: None,
    });
    if strategy.type_ == RolloutStrategyType::RollingUpdate {
        let limits = strategy.rolling_update.get_or_insert_with(RollingUpdateLimits::default);
        limits.max_surge.get_or_insert(IntOrString::Int(1));
        limits.max_unavailable.get_or_insert(IntOrString::Int(0));
    }

    let template = &mut spec.template.metadata.get_or_insert_default().labels;
    let selects_nothing = spec.selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && spec.selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    let wanted = spec.selector.match_labels.get_or_insert_default();
    if selects_nothing {
        wanted.insert(labels::DEPLOYMENT_NAME.to_owned(), name.clone());
        template.insert(labels::DEPLOYMENT_NAME.to_owned(), name);
    }
    wanted.insert(labels::CLUSTER_NAME.to_owned(), cluster.clone());
    template.insert(labels::CLUSTER_NAME.to_owned(), cluster);
}

#[cfg(test)]
mod tests {
    use super::super::limits::Limits;
    use super::*;
    use crate::machinedeployment::fixtures::deployment;
    use crate::machineset::fixtures::machine_set;
    use capstan_api::meta::annotations::{AUTOSCALER_MAX_SIZE, AUTOSCALER_MIN_SIZE};
    use serde_json::json;

    #[test]
    fn what_is_unset_is_filled_in_once() {
        let bare = json!({"spec": {"replicas": null, "rollout": null, "selector": {"matchLabels": null}}});
        let mut filled = deployment(&bare);
        fill(&mut filled);
        fill_replicas(&mut filled, &[]).expect("a number");
        let limits = Limits::of(&filled).expect("a test value");
        assert_eq!(limits, Limits { desired: 1, max_surge: 1, max_unavailable: 0 });
        assert_eq!(
            filled.spec.selector.match_labels.as_ref().expect("a test value")[labels::DEPLOYMENT_NAME],
            "md"
        );
        assert_eq!(filled.labels()[labels::CLUSTER_NAME], "c");
        let before = filled.clone();
        fill(&mut filled);
        fill_replicas(&mut filled, &[]).expect("a number");
        assert_eq!(filled, before);
    }

    #[test]
    fn a_number_that_is_left_out_is_the_one_that_machine_sets_were_made_for() {
        let set = |replicas: i32, desired: Option<&str>| {
            let annotations = desired.map(|desired| json!({DESIRED_REPLICAS: desired}));
            machine_set("ms", replicas, &json!({"metadata": {"annotations": annotations}}))
        };
        for (sets, expected) in [
            (vec![], 1),
            (vec![set(3, Some("5")), set(3, Some("5"))], 5),
            (vec![set(3, Some("5")), set(0, Some("9"))], 5),
            (vec![set(2, None), set(1, None)], 3),
            (vec![set(0, Some("5"))], 0),
        ] {
            let mut filled = deployment(&json!({"spec": {"replicas": null}}));
            fill_replicas(&mut filled, &sets).expect("a number");
            assert_eq!(filled.spec.replicas, Some(expected));
        }
        let mut said = deployment(&json!({"spec": {"replicas": 2}}));
        fill_replicas(&mut said, &[set(5, Some("5"))]).expect("a number");
        assert_eq!(said.spec.replicas, Some(2));
        let annotations = json!({AUTOSCALER_MIN_SIZE: "x", AUTOSCALER_MAX_SIZE: "3"});
        let mut wrong =
            deployment(&json!({"metadata": {"annotations": annotations}, "spec": {"replicas": null}}));
        let error = fill_replicas(&mut wrong, &[]).expect_err("an error").to_string();
        assert!(error.contains("MachineDeployment ns/md: metadata.annotations["), "{error}");
        assert_eq!(wrong.spec.replicas, None);
    }
}
