//! Replaces unhealthy Machines, as [`remediation`] has decided.

use capstan_api::conditions::{NewCondition, delete, get, set as set_condition};
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_controller::error::chain;
use capstan_controller::patch::Patcher;
use capstan_controller::{Error, Grounds, Next, Result};
use kube::ResourceExt as _;
use kube::api::Api;

use super::super::MachineSetReconciler;
use super::super::decide::confirm::{Confirmed, check_spare, grounds_with_node, grounds_without_node};
use super::super::decide::{preflight, remediation};
use super::super::observe::Templates;
use crate::machinehealthcheck::node;
use crate::names::machine::types;

impl MachineSetReconciler {
    /// Deals with the Machines that a health check has marked.
    pub(in crate::machineset) async fn remediate(
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
            self.write_owner_remediated(machines, name, None).await?;
        }
        for (name, condition) in &decision.waiting {
            self.write_owner_remediated(machines, name, Some(condition)).await?;
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
        // The condition first: a Machine that is deleted could not get it afterwards.
        for name in &decision.now {
            if !failures.is_empty() {
                self.write_owner_remediated(machines, name, Some(&condition)).await?;
                continue;
            }
            let confirmed = match check_spare(machines, name, templates) {
                Ok(()) => self.confirm(machines, name).await,
                Err(why) => Err(why),
            };
            match confirmed {
                Ok(grounds) => {
                    self.write_owner_remediated(machines, name, Some(&condition)).await?;
                    self.delete(set, machines, std::slice::from_ref(name), &grounds).await?;
                }
                Err(why) => {
                    self.write_owner_remediated(machines, name, Some(&remediation::unconfirmed(&why)))
                        .await?;
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
        let condition = machine.and_then(|machine| get(machine, types::HEALTH_CHECK_SUCCEEDED));
        let (Some(machine), Some(condition)) = (machine, condition) else {
            return Ok(Grounds::asked("the Machine is annotated to be remediated"));
        };
        let namespace = machine.namespace().unwrap_or_default();
        let (remotes, cluster) = (&self.core.remotes, &machine.spec.cluster_name);
        if let Some(node) = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()) {
            let now = remotes.node_now(&namespace, cluster, &node.name).await;
            return grounds_with_node(condition, &node.name, &now);
        }
        if !node::is_about_node(&condition.reason) {
            return Ok(Grounds::asked(condition.message.clone()));
        }
        match remotes.nodes(&namespace, cluster).await {
            Ok(nodes) => grounds_without_node(condition, node::find(Some(&nodes), machine)),
            Err(error) => Err(chain(&error)),
        }
    }

    /// Sets or removes `OwnerRemediated` of a Machine.
    async fn write_owner_remediated(
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
