//! Settings of MachineDeployments for changes of their workers.

use capstan_api::core::MachineDeployment;
use capstan_api::keep::ReplacePolicy;
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_planner::MachineFacts;
use capstan_planner::budget::{Budget, Budgets};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many machines each group may do without.
pub(super) fn budgets(deployments: &[Arc<MachineDeployment>]) -> Budgets {
    deployments.iter().map(|one| (one.name_any(), budget(one))).collect()
}

fn budget(deployment: &MachineDeployment) -> Budget {
    let rollout = deployment.spec.rollout.as_ref();
    let strategy = rollout.and_then(|rollout| rollout.strategy.as_ref());
    let limits = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let most = limits.and_then(|limits| limits.max_unavailable.as_ref());
    let replicas = deployment.spec.replicas.unwrap_or(1);
    Budget {
        most: most.map_or(1, |most| amount(most, replicas)).max(1),
        restart_after: rollout.and_then(|rollout| rollout.after.as_ref()).map(|after| after.0),
    }
}

/// Whether and how workers are replaced, by the name of their group.
#[derive(Default)]
pub(crate) struct Replacements(BTreeMap<String, Replacement>);

struct Replacement {
    policy: Result<Option<ReplacePolicy>, String>,
    template: ContractVersionedObjectReference,
}

impl Replacements {
    pub(super) fn of(deployments: &[Arc<MachineDeployment>]) -> Self {
        let replacement = |deployment: &Arc<MachineDeployment>| Replacement {
            policy: ReplacePolicy::said(deployment.annotations()),
            template: deployment.spec.template.spec.infrastructure_ref.clone(),
        };
        Self(deployments.iter().map(|one| (one.name_any(), replacement(one))).collect())
    }

    fn get(&self, machine: &MachineFacts) -> Option<&Replacement> {
        self.0.get(machine.group.as_ref()?)
    }

    /// The policy about replacements of the MachineDeployment that a worker belongs to, if it has one.
    pub(crate) fn policy(&self, machine: &MachineFacts) -> Result<Option<ReplacePolicy>, String> {
        self.get(machine).map_or(Ok(None), |group| group.policy.clone())
    }

    /// The template of the next worker of the group.
    pub(crate) fn template(&self, machine: &MachineFacts) -> Option<&ContractVersionedObjectReference> {
        self.get(machine).map(|group| &group.template)
    }
}

/// A number, or a percentage rounded down. Core rejects other values.
fn amount(amount: &IntOrString, total: i32) -> usize {
    let number = match amount {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<i64>().ok());
            percent.and_then(|percent| i32::try_from(percent.checked_mul(total.into())? / 100).ok())
        }
    };
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_group_is_as_wide_as_its_deployment_says() {
        let deployment = |replicas: i32, most: serde_json::Value| -> MachineDeployment {
            serde_json::from_value(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "md"},
                "spec": {
                    "clusterName": "c", "replicas": replicas, "selector": {},
                    "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}}},
                    "template": {"spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {
                        "kind": "HostMachineTemplate", "name": "n", "apiGroup": "infrastructure.cluster.x-k8s.io"}}},
                },
            }))
            .expect("a MachineDeployment")
        };
        for (replicas, most, expected) in [
            (10, json!(3), 3),
            (10, json!("25%"), 2),
            (3, json!("25%"), 1),
            (10, json!(0), 1),
            (10, json!("nonsense"), 1),
        ] {
            assert_eq!(budget(&deployment(replicas, most.clone())).most, expected, "{most}");
        }
    }
}
