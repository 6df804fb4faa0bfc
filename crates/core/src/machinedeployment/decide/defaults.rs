//! What upstream's webhook fills in. Here it is filled in by the controller, which does not need one. Pure.

use capstan_api::core::{
    MachineDeployment, MachineDeploymentRolloutStrategy, RollingUpdateLimits, RolloutStrategyType,
};
use capstan_api::meta::labels;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

/// Fills in what is unset.
pub(crate) fn fill(deployment: &mut MachineDeployment) {
    let name = deployment.name_any();
    let cluster = deployment.spec.cluster_name.clone();
    deployment
        .metadata
        .labels
        .get_or_insert_default()
        .insert(labels::CLUSTER_NAME.to_owned(), cluster.clone());

    let spec = &mut deployment.spec;
    spec.replicas.get_or_insert(1);
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
    use serde_json::json;

    #[test]
    fn what_is_unset_is_filled_in_once() {
        let bare = json!({"spec": {"replicas": null, "rollout": null, "selector": {"matchLabels": null}}});
        let mut filled = deployment(&bare);
        fill(&mut filled);
        let limits = Limits::of(&filled).expect("a test value");
        assert_eq!(limits, Limits { desired: 1, max_surge: 1, max_unavailable: 0 });
        assert_eq!(
            filled.spec.selector.match_labels.as_ref().expect("a test value")[labels::DEPLOYMENT_NAME],
            "md"
        );
        assert_eq!(filled.labels()[labels::CLUSTER_NAME], "c");
        let before = filled.clone();
        fill(&mut filled);
        assert_eq!(filled, before);
    }
}
