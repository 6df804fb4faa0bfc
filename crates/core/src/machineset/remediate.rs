//! Replacing unhealthy Machines, as [`super::remediation`] has decided.

use capstan_api::conditions::{NewCondition, delete, get, set as set_condition};
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_controller::error::chain;
use capstan_controller::patch::Patcher;
use capstan_controller::{Error, Knowledge, Next, Result};
use kube::ResourceExt as _;
use kube::api::Api;

use super::MachineSetReconciler;
use super::templates::Templates;
use super::{preflight, remediation};
use crate::machinehealthcheck::health::still_holds;
use crate::machinehealthcheck::node::{self, Found};
use crate::names::machine::types;

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
            if failures.is_empty()
                && let Some(why) = self.is_unconfirmed(machines, name).await
            {
                self.tell(machines, name, Some(&remediation::unconfirmed(&why))).await?;
                next = Next::After(preflight::RETRY);
                continue;
            }
            self.tell(machines, name, Some(&condition)).await?;
            if failures.is_empty() {
                self.delete(set, std::slice::from_ref(name), "replaces an unhealthy Machine").await?;
            }
        }
        Ok(if failures.is_empty() { next } else { Next::After(preflight::RETRY) })
    }

    /// Why the Machine must not be deleted yet: what the health check has found is not so, or cannot be confirmed. The
    /// API server is asked, past all caches: the condition may be older than this process.
    async fn is_unconfirmed(&self, machines: &[Machine], name: &str) -> Option<String> {
        let machine = machines.iter().find(|machine| machine.name_any() == name)?;
        let told = get(machine, types::HEALTH_CHECK_SUCCEEDED)?;
        let namespace = machine.namespace().unwrap_or_default();
        let Some(node) = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()) else {
            return self.has_appeared(machine, &namespace, &told.reason).await;
        };
        match self.core.remotes.node_now(&namespace, &machine.spec.cluster_name, &node.name).await {
            Knowledge::Unknown(why) => Some(why),
            Knowledge::Known(now) => (!still_holds(&told.reason, &told.message, now.as_ref()))
                .then(|| format!("Node {} is healthy again", node.name)),
        }
    }

    /// Why a Machine without a Node reference must not be deleted for that: its Node is there, or the Nodes are unknown.
    async fn has_appeared(&self, machine: &Machine, namespace: &str, reason: &str) -> Option<String> {
        if !node::is_about_node(reason) {
            return None;
        }
        let nodes = match self.core.remotes.nodes(namespace, &machine.spec.cluster_name).await {
            Ok(nodes) => nodes,
            Err(error) => return Some(chain(&error)),
        };
        match node::find(Some(&nodes), machine) {
            Found::Unknown(why) => Some(why),
            Found::There(node) => Some(format!("Node {} exists now", node.name_any())),
            Found::None => None,
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
