//! Replacing unhealthy Machines, as [`super::remediation`] has decided.

use capstan_api::conditions::{Condition, NewCondition, delete, get, set as set_condition};
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::keep;
use capstan_controller::error::chain;
use capstan_controller::patch::Patcher;
use capstan_controller::spare;
use capstan_controller::{Error, Grounds, Knowledge, Next, Result};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::Api;

use super::MachineSetReconciler;
use super::templates::Templates;
use super::{preflight, remediation};
use crate::machinehealthcheck::health::still_holds;
use crate::machinehealthcheck::node::{self, Found};
use crate::names::machine::types;

/// On which grounds a Machine is deleted, or why not yet.
type Confirmed = std::result::Result<Grounds, String>;

impl MachineSetReconciler {
    /// Deals with the Machines that a health check has marked.
    pub(super) async fn remediate(
        &self,
        cluster: &Cluster,
        set: &MachineSet,
        owner: Option<&MachineDeployment>,
        templates: &Templates,
        machines: &mut [Machine],
    ) -> Result<Next> {
        let decision = remediation::decide(set, owner, machines).map_err(|problem| {
            let name = owner.map(kube::ResourceExt::name_any).unwrap_or_default();
            Error::user(format!("MachineDeployment {name} spec.remediation.maxInFlight"), problem.to_string())
        })?;
        for name in &decision.recovered {
            self.tell(machines, name, None).await?;
        }
        for (name, condition) in &decision.waiting {
            self.tell(machines, name, Some(condition)).await?;
        }
        if decision.now.is_empty() {
            return Ok(Next::Changed);
        }
        let failures = self.preflight(cluster, set, templates).await?;
        let condition = match failures.is_empty() {
            true => remediation::replaced(),
            false => remediation::held_up(&failures),
        };
        let mut next = Next::Changed;
        // Told first: a Machine that is deleted already would not be found again to be told.
        for name in &decision.now {
            if !failures.is_empty() {
                self.tell(machines, name, Some(&condition)).await?;
                continue;
            }
            let confirmed = match check_spare(machines, name, templates) {
                Ok(()) => self.confirm(machines, name).await,
                Err(why) => Err(why),
            };
            match confirmed {
                Ok(grounds) => {
                    self.tell(machines, name, Some(&condition)).await?;
                    self.delete(set, machines, std::slice::from_ref(name), &grounds).await?;
                }
                Err(why) => {
                    self.tell(machines, name, Some(&remediation::unconfirmed(&why))).await?;
                    next = Next::After(preflight::RETRY);
                }
            }
        }
        Ok(if failures.is_empty() { next } else { Next::After(preflight::RETRY) })
    }

    /// On which grounds the Machine is deleted, or why not yet: what the health check has found is not so, or cannot be
    /// confirmed. The API server is asked, past all caches: the condition may be older than this process.
    async fn confirm(&self, machines: &[Machine], name: &str) -> Confirmed {
        let machine = machines.iter().find(|machine| machine.name_any() == name);
        let told = machine.and_then(|machine| get(machine, types::HEALTH_CHECK_SUCCEEDED));
        let (Some(machine), Some(told)) = (machine, told) else {
            return Ok(Grounds::asked("the Machine is annotated to be remediated"));
        };
        let namespace = machine.namespace().unwrap_or_default();
        let (remotes, cluster) = (&self.core.remotes, &machine.spec.cluster_name);
        if let Some(node) = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()) {
            let now = remotes.node_now(&namespace, cluster, &node.name).await;
            return grounds_with_node(told, &node.name, &now);
        }
        if !node::is_about_node(&told.reason) {
            return Ok(Grounds::asked(told.message.clone()));
        }
        match remotes.nodes(&namespace, cluster).await {
            Ok(nodes) => grounds_without_node(told, node::find(Some(&nodes), machine)),
            Err(error) => Err(chain(&error)),
        }
    }

    /// Sets `OwnerRemediated` of a Machine, or takes it away.
    async fn tell(
        &self,
        machines: &mut [Machine],
        name: &str,
        condition: Option<&NewCondition>,
    ) -> Result<()> {
        let Some(machine) = machines.iter_mut().find(|machine| machine.name_any() == name) else {
            return Ok(());
        };
        let before = machine.clone();
        match condition {
            Some(condition) => set_condition(machine, condition.clone(), self.core.now()),
            None => delete(machine, types::OWNER_REMEDIATED),
        };
        let api: Api<Machine> = self.core.api(&before.namespace().unwrap_or_default());
        Patcher::new(api, &before).finish(machine, &[types::OWNER_REMEDIATED]).await
    }
}

/// Checks that a kept Machine is not deleted where no host is free for the next one.
fn check_spare(machines: &[Machine], name: &str, templates: &Templates) -> std::result::Result<(), String> {
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
fn grounds_with_node(told: &Condition, node: &str, now: &Knowledge<Option<Node>>) -> Confirmed {
    Grounds::observed(now, |now| match still_holds(&told.reason, &told.message, now.as_ref()) {
        true => Ok(told.message.clone()),
        false => Err(format!("Node {node} is healthy again")),
    })
}

/// What a finding about the Node is worth for a Machine that refers to none.
fn grounds_without_node(told: &Condition, found: Found) -> Confirmed {
    let seen = match found {
        Found::Unknown(why) => Knowledge::Unknown(why),
        Found::None => Knowledge::Known(None),
        Found::There(node) => Knowledge::Known(Some(node)),
    };
    Grounds::observed(&seen, |node| match node {
        None => Ok(told.message.clone()),
        Some(node) => Err(format!("Node {} exists now", node.name_any())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinehealthcheck::names::reasons;
    use serde_json::json;
    use std::sync::Arc;

    fn told(reason: &str, message: &str) -> Condition {
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
        let lost = told(reasons::UNHEALTHY_NODE, "Condition Ready on Node is reporting status Unknown");
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
        let late = told(reasons::NODE_STARTUP_TIMEOUT, "Node failed to report startup in 10m0s");
        assert!(grounds_without_node(&late, Found::None).is_ok());
        let appeared = grounds_without_node(&late, Found::There(Arc::new(node("True"))));
        assert_eq!(appeared, Err("Node n exists now".to_owned()));
        let unknown = grounds_without_node(&late, Found::Unknown("no answer".to_owned()));
        assert_eq!(unknown, Err("no answer".to_owned()));
    }
}
