//! Whether an unhealthy Machine may be deleted, by what was read right before. Pure.

use capstan_api::conditions::Condition;
use capstan_api::core::Machine;
use capstan_api::keep;
use capstan_controller::spare;
use capstan_controller::{Grounds, Knowledge};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use super::super::observe::Templates;
use crate::machinehealthcheck::health::still_holds;
use crate::machinehealthcheck::node::Found;

/// On which grounds a Machine is deleted, or why not yet.
pub(in crate::machineset) type Confirmed = Result<Grounds, String>;

/// Checks that a kept Machine is not deleted where no host is free for the next one.
pub(in crate::machineset) fn check_spare(
    machines: &[Machine],
    name: &str,
    templates: &Templates,
) -> Result<(), String> {
    let is_it = |machine: &&Machine| machine.name_any() == name && keep::is_kept(&machine.spec);
    if machines.iter().find(is_it).is_none() {
        return Ok(());
    }
    match &templates.infrastructure {
        Some(template) => spare::of(template).check(),
        None => Err("the infrastructure template of the MachineSet cannot be read".to_owned()),
    }
}

/// What a finding is worth, given the Node as it is now.
pub(in crate::machineset) fn grounds_with_node(
    condition: &Condition,
    node: &str,
    now: &Knowledge<Option<Node>>,
) -> Confirmed {
    Grounds::observed(now, |now| match still_holds(&condition.reason, &condition.message, now.as_ref()) {
        true => Ok(condition.message.clone()),
        false => Err(format!("Node {node} is healthy again")),
    })
}

/// What a finding about the Node is worth for a Machine that refers to none.
pub(in crate::machineset) fn grounds_without_node(condition: &Condition, found: Found) -> Confirmed {
    let seen = match found {
        Found::Unknown(why) => Knowledge::Unknown(why),
        Found::None => Knowledge::Known(None),
        Found::There(node) => Knowledge::Known(Some(node)),
    };
    Grounds::observed(&seen, |node| match node {
        None => Ok(condition.message.clone()),
        Some(node) => Err(format!("Node {} exists now", node.name_any())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinehealthcheck::names::reasons;
    use crate::names::machine::types;
    use serde_json::json;
    use std::sync::Arc;

    fn unhealthy(reason: &str, message: &str) -> Condition {
        serde_json::from_value(json!({
            "type": types::HEALTH_CHECK_SUCCEEDED, "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }))
        .expect("a condition")
    }

    fn node(ready: &str) -> Node {
        let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": status})).expect("a Node")
    }

    #[test]
    fn a_finding_is_confirmed_by_what_is_known_now() {
        let lost = unhealthy(reasons::UNHEALTHY_NODE, "Condition Ready on Node is reporting status Unknown");
        let confirmed = |now: Knowledge<Option<Node>>| grounds_with_node(&lost, "n", &now);
        assert!(confirmed(Knowledge::Known(Some(node("Unknown")))).is_ok());
        assert_eq!(
            confirmed(Knowledge::Known(Some(node("True")))),
            Err("Node n is healthy again".to_owned())
        );
        assert_eq!(confirmed(Knowledge::unknown("no answer")), Err("no answer".to_owned()));
    }

    #[test]
    fn a_kept_machine_is_not_deleted_without_a_host_for_the_next() {
        let kept = crate::machineset::fixtures::machine("m")
            .change(|m| m.spec.infrastructure_ref.kind = "HostMachine".to_owned())
            .done();
        let other = crate::machineset::fixtures::machine("m").done();
        let templates = |status: &serde_json::Value| Templates {
            infrastructure: serde_json::from_value(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostMachineTemplate",
                "metadata": {"name": "t"}, "status": status,
            }))
            .ok(),
            ..Templates::default()
        };
        let checked = |machine: &Machine, templates: &Templates| {
            check_spare(std::slice::from_ref(machine), "m", templates)
        };
        assert!(keep::is_kept(&kept.spec));
        assert_eq!(checked(&kept, &templates(&json!({"claimableHosts": 1}))), Ok(()));
        assert!(checked(&kept, &templates(&json!({"claimableHosts": 0}))).is_err());
        assert!(checked(&kept, &templates(&json!({}))).is_err(), "unknown is not free");
        assert!(checked(&kept, &Templates::default()).is_err());
        assert_eq!(checked(&other, &templates(&json!({"claimableHosts": 0}))), Ok(()));
    }

    #[test]
    fn a_node_that_has_appeared_saves_its_machine() {
        let late = unhealthy(reasons::NODE_STARTUP_TIMEOUT, "Node failed to report startup in 10m0s");
        assert!(grounds_without_node(&late, Found::None).is_ok());
        let appeared = grounds_without_node(&late, Found::There(Arc::new(node("True"))));
        assert_eq!(appeared, Err("Node n exists now".to_owned()));
        let unknown = grounds_without_node(&late, Found::Unknown("no answer".to_owned()));
        assert_eq!(unknown, Err("no answer".to_owned()));
    }
}
