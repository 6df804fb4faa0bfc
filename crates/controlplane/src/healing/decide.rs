//! Requests the replacement of a machine that no healing step has healed, if its health check has left that to this
//! controller. Pure.
//!
//! A MachineHealthCheck with a CapstanRemediationTemplate does not request a replacement from the owner of an unhealthy
//! Machine, because upstream's owners would replace it at once. Here the owner is asked after the last healing step, if
//! the policy allows it.

use capstan_api::conditions::{ConditionStatus, NewCondition, has};
use capstan_api::core::Machine;
use capstan_api::keep::ReplacePolicy;
use capstan_planner::MachineFacts;
use capstan_planner::healing::Healing;
use kube::ResourceExt as _;

use crate::observe::machine::OWNER_REMEDIATED;

/// Condition of a Machine for which a health check has created a remediation request.
const EXTERNALLY_REMEDIATED: &str = "ExternallyRemediated";

/// Reason of `OwnerRemediated` of a Machine whose owner has not acted yet.
const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";

/// Whether the owner is to be asked. `of_group` is the policy of the group, for Machines without their own.
pub(super) fn is_to_be_asked(
    machine: &Machine,
    facts: &MachineFacts,
    healing: &Healing,
    of_group: Result<Option<ReplacePolicy>, String>,
) -> bool {
    let is_ours = facts.is_unhealthy && has(machine, EXTERNALLY_REMEDIATED) && !facts.is_ill;
    let said = match ReplacePolicy::said(machine.annotations()) {
        Ok(None) => of_group,
        said => said,
    };
    let is_allowed = said == Ok(Some(ReplacePolicy::WhenNeeded));
    is_ours && healing.is_exhausted() && !facts.is_kept_out && !facts.deleting && is_allowed
}

/// The condition that asks the owner.
pub(super) fn ask() -> NewCondition {
    NewCondition::new(OWNER_REMEDIATED, ConditionStatus::False, WAITING_FOR_REMEDIATION)
        .message("no step of healing in place has helped, and the replace policy allows another machine")
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::runtime::annotations::REPLACE_POLICY;
    use capstan_planner::healing::Stage;
    use serde_json::json;

    #[test]
    fn the_owner_is_asked_last_and_only_where_that_is_allowed() {
        let machine = |condition: &str, policy: Option<&str>| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": "w", "annotations": policy.map(|policy| json!({REPLACE_POLICY: policy}))},
                "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {
                    "kind": "HostMachine", "name": "w", "apiGroup": "infrastructure.cluster.x-k8s.io"}},
                "status": {"conditions": [{"type": condition, "status": "False", "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }))
            .expect("a Machine")
        };
        let ill = MachineFacts::worker("w").with(|m| m.is_unhealthy = true);
        let at = |stage| Healing { record: None, progress: Some((stage, String::new())) };
        let (exhausted, allowed) = (at(Stage::Exhausted), Ok(Some(ReplacePolicy::WhenNeeded)));
        let request = machine(EXTERNALLY_REMEDIATED, None);
        assert!(is_to_be_asked(&request, &ill, &exhausted, allowed.clone()));
        assert!(!is_to_be_asked(&request, &ill, &at(Stage::Waiting), allowed.clone()), "healing goes on");
        assert!(!is_to_be_asked(&request, &ill, &exhausted, Ok(None)), "never, by default");
        assert!(!is_to_be_asked(&request, &ill, &exhausted, Err("misspelt".to_owned())));
        let never = machine(EXTERNALLY_REMEDIATED, Some("Never"));
        assert!(!is_to_be_asked(&never, &ill, &exhausted, allowed.clone()), "the Machine says otherwise");
        let when_needed = machine(EXTERNALLY_REMEDIATED, Some("WhenNeeded"));
        assert!(is_to_be_asked(&when_needed, &ill, &exhausted, Ok(None)));
        assert!(
            !is_to_be_asked(&machine("Other", None), &ill, &exhausted, allowed.clone()),
            "not left to us"
        );
        for other in [
            MachineFacts::worker("w"),
            ill.clone().with(|m| m.is_ill = true),
            ill.clone().with(|m| m.is_kept_out = true),
            ill.leaving(),
        ] {
            assert!(!is_to_be_asked(&request, &other, &exhausted, allowed.clone()), "{other:?}");
        }
    }
}
