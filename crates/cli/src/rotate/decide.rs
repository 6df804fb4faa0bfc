//! What the condition of a control plane says about the replacement of its plan key. Pure.

use capstan_api::conditions::{ConditionStatus, get};
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::wait::causes;

/// The condition that tells how far the key is replaced.
const CONDITION: &str = "PlanKeyReplaced";

/// How far the replacement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// No key was ever replaced.
    Never,
    /// It is not over, and what it waits for.
    Underway(String),
    /// Agents are too old, and which.
    Unable(String),
    /// It is over, and what is said about the key.
    Done(String),
}

pub(super) fn stand(control_plane: &CapstanControlPlane) -> Stand {
    match get(control_plane, CONDITION) {
        None => Stand::Never,
        Some(condition) if condition.status == ConditionStatus::True => {
            Stand::Done(condition.message.clone())
        }
        Some(condition) if condition.reason == causes::AGENTS_CANNOT_FOLLOW.reason => {
            Stand::Unable(condition.message.clone())
        }
        Some(condition) => Stand::Underway(condition.message.clone()),
    }
}

/// Whether a replacement that began when the control plane said `before` is over.
pub(super) fn is_over(before: &Stand, now: &Stand) -> bool {
    matches!(now, Stand::Done(_)) && now != before
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(status: &str, reason: &str, message: &str) -> Stand {
        let object = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "CapstanControlPlane",
            "metadata": {"name": "c"}, "spec": {"version": "v1.36.0+k3s1", "machineTemplate": {"spec": {
                "infrastructureRef": {"apiGroup": "a", "kind": "b", "name": "c"}}}},
            "status": {"conditions": [{
                "type": CONDITION, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        });
        stand(&serde_json::from_value(object).expect("a control plane"))
    }

    #[test]
    fn a_replacement_is_over_when_another_key_is_named() {
        let old = said("True", "Replaced", "key a");
        assert!(!is_over(&old, &old), "this is what the last replacement said");
        assert!(!is_over(&old, &said("False", "ReplacingPlanKey", "")));
        assert!(is_over(&old, &said("True", "Replaced", "key b")));
        assert!(is_over(&Stand::Never, &old));
        assert!(is_over(&Stand::Underway(String::new()), &old), "one that another process began");
        assert_eq!(said("False", "AgentsCannotFollow", "w0"), Stand::Unable("w0".to_owned()));
    }
}
