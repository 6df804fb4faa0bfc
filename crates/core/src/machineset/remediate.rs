//! Replacing unhealthy Machines, as [`super::remediation`] has decided.

use capstan_api::conditions::{NewCondition, delete, set as set_condition};
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_controller::patch::Patcher;
use capstan_controller::{Error, Next, Result};
use kube::ResourceExt as _;
use kube::api::Api;

use super::MachineSetReconciler;
use super::templates::Templates;
use super::{preflight, remediation};
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
        // Told first: a Machine that is deleted already would not be found again to be told.
        for name in &decision.now {
            self.tell(machines, name, Some(&condition)).await?;
        }
        if !failures.is_empty() {
            return Ok(Next::After(preflight::RETRY));
        }
        self.delete(set, &decision.now, "replaces an unhealthy Machine").await?;
        Ok(Next::Changed)
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
