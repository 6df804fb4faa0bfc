//! How many workers of a group may be away at a time. Pure.
//!
//! A group is a MachineDeployment, whose `maxUnavailable` counts; other workers go one at a time. A machine that has been
//! silent for too long, could not be healed, has given its plan up, or is held by the user is not waited for. It uses up the budget, but never
//! all of it: one machine at a time can always go on.

use capstan_api::core::MachineDeployment;
use capstan_api::keep::ReplacePolicy;
use capstan_api::meta::ContractVersionedObjectReference;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::facts::MachineFacts;

/// What a MachineDeployment says of changes to its machines.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Budget {
    most: usize,
    restart_after: Option<Timestamp>,
    policy: Result<Option<ReplacePolicy>, String>,
    template: Option<ContractVersionedObjectReference>,
}

/// Budgets by the name of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budgets(BTreeMap<String, Budget>);

impl Budgets {
    pub(crate) fn of(deployments: &[Arc<MachineDeployment>]) -> Self {
        let budget = |deployment: &Arc<MachineDeployment>| {
            let rollout = deployment.spec.rollout.as_ref();
            let strategy = rollout.and_then(|rollout| rollout.strategy.as_ref());
            let limits = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
            let most = limits.and_then(|limits| limits.max_unavailable.as_ref());
            let replicas = deployment.spec.replicas.unwrap_or(1);
            Budget {
                most: most.map_or(1, |most| amount(most, replicas)).max(1),
                restart_after: rollout.and_then(|rollout| rollout.after.as_ref()).map(|after| after.0),
                policy: ReplacePolicy::said(deployment.annotations()),
                template: Some(deployment.spec.template.spec.infrastructure_ref.clone()),
            }
        };
        Self(deployments.iter().map(|one| (one.name_any(), budget(one))).collect())
    }

    #[cfg(test)]
    pub(crate) fn with(group: &str, most: usize) -> Self {
        let budget = Budget { most, restart_after: None, policy: Ok(None), template: None };
        Self(BTreeMap::from([(group.to_owned(), budget)]))
    }

    fn most(&self, machine: &MachineFacts) -> usize {
        machine.group.as_ref().and_then(|group| self.0.get(group)).map_or(1, |budget| budget.most)
    }

    /// `spec.rollout.after` of the MachineDeployment that a worker belongs to.
    pub(crate) fn restart_after(&self, machine: &MachineFacts) -> Option<Timestamp> {
        self.0.get(machine.group.as_ref()?)?.restart_after
    }

    /// What the MachineDeployment that a worker belongs to says of replacements; nothing if it says nothing.
    pub(crate) fn policy(&self, machine: &MachineFacts) -> Result<Option<ReplacePolicy>, String> {
        machine
            .group
            .as_ref()
            .and_then(|group| self.0.get(group))
            .map_or(Ok(None), |group| group.policy.clone())
    }

    /// The template from which the next worker of the group would be made.
    pub(crate) fn template(&self, machine: &MachineFacts) -> Option<&ContractVersionedObjectReference> {
        self.0.get(machine.group.as_ref()?)?.template.as_ref()
    }

    /// Whether one more worker of the group may be busy, beside those of which `is_busy` says so.
    ///
    /// # Errors
    /// If not: which machine it waits for.
    pub(crate) fn room<'a>(
        &self,
        machine: &MachineFacts,
        all: &'a [MachineFacts],
        is_busy: impl Fn(&MachineFacts) -> bool,
    ) -> Result<(), &'a MachineFacts> {
        let peers = all.iter().filter(|other| {
            !other.control_plane
                && !other.deleting
                && other.name != machine.name
                && other.group == machine.group
        });
        let (skipped, counted): (Vec<&MachineFacts>, Vec<_>) =
            peers.filter(|peer| is_busy(peer)).partition(|peer| is_skipped(peer));
        let most = self.most(machine).saturating_sub(skipped.len()).max(1);
        match counted.first() {
            Some(busy) if counted.len() >= most => Err(busy),
            _ => Ok(()),
        }
    }
}

/// Whether a rollout does not wait for the machine: it may never carry out its plan.
pub(crate) fn is_skipped(machine: &MachineFacts) -> bool {
    let is_lost = machine.silent_since.is_some() || machine.is_beyond_healing;
    machine.is_kept_out || is_lost || machine.is_given_up()
}

/// A number, or a percentage rounded down. Core refuses what is neither.
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
    use crate::facts::Progress;
    use serde_json::json;

    fn worker(name: &str) -> MachineFacts {
        MachineFacts::worker(name).up().with(|m| m.group = Some("md".to_owned()))
    }

    fn busy(name: &str) -> MachineFacts {
        worker(name).says(Progress::InFlight)
    }

    fn room(budgets: &Budgets, all: &[MachineFacts]) -> Result<(), String> {
        budgets.room(&all[0], all, MachineFacts::is_in_flight).map_err(|other| other.name.clone())
    }

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
            let budgets = Budgets::of(&[Arc::new(deployment(replicas, most.clone()))]);
            assert_eq!(budgets.most(&worker("w")), expected, "{most}");
        }
        assert_eq!(Budgets::default().most(&worker("w")), 1);
    }

    #[test]
    fn as_many_may_be_busy_as_allowed() {
        let two = Budgets::with("md", 2);
        assert_eq!(room(&two, &[worker("a"), busy("b"), worker("c")]), Ok(()));
        assert_eq!(room(&two, &[worker("a"), busy("b"), busy("c")]), Err("b".to_owned()));
        let elsewhere = busy("c").with(|m| m.group = Some("other".to_owned()));
        assert_eq!(room(&two, &[worker("a"), busy("b"), elsewhere]), Ok(()));
        assert_eq!(room(&two, &[worker("a"), busy("b"), busy("c").leaving()]), Ok(()));
    }

    #[test]
    fn nobody_waits_for_ever() {
        let one = Budgets::with("md", 1);
        let silent = busy("b").with(|m| m.silent_since = Some(Timestamp::UNIX_EPOCH));
        let held = busy("b").with(|m| m.is_kept_out = true);
        let given_up = busy("b").says(Progress::Failed("no disk".to_owned())).with(|m| {
            m.plan.as_mut().expect("a plan").record.attempt = crate::planner::record::MOST_ATTEMPTS;
        });
        let beyond = busy("b").with(|m| m.is_beyond_healing = true);
        for skipped in [silent, held, given_up, beyond] {
            assert_eq!(room(&one, &[worker("a"), skipped.clone()]), Ok(()), "{skipped:?}");
            let beside = [worker("a"), skipped.clone(), busy("c")];
            assert_eq!(room(&one, &beside), Err("c".to_owned()), "one at a time goes on");
            // It counts: of two that may be away one is.
            assert_eq!(room(&Budgets::with("md", 2), &beside), Err("c".to_owned()));
            assert_eq!(room(&Budgets::with("md", 3), &beside), Ok(()));
        }
    }
}
