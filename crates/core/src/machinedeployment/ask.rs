//! Asking an extension which MachineSets' Machines can be changed in place.

use capstan_api::core::{MachineDeployment, MachineSet};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_api::runtime::hooks::CanUpdateMachineSet;
use capstan_controller::{Error, Result};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use std::collections::BTreeSet;

use super::MachineDeploymentReconciler;
use super::question::{self, Side};
use super::rollout::Draft;
use crate::runtime::CallError;

impl MachineDeploymentReconciler {
    /// Names of the old MachineSets whose Machines can be changed to what the new one says.
    ///
    /// # Errors
    /// If nobody can say, or an extension does not want the change at all: then nothing may be rolled out.
    pub(super) async fn ask(
        &self,
        deployment: &MachineDeployment,
        draft: &Draft,
    ) -> Result<BTreeSet<String>> {
        let mut movable = BTreeSet::new();
        let Some((new, candidates)) = draft.candidates() else { return Ok(movable) };
        let namespace = deployment.namespace().unwrap_or_default();
        let Some(handler) = self.core.extensions.serving::<CanUpdateMachineSet>(&namespace).await? else {
            return Ok(movable);
        };
        let desired = self.side(new).await?;
        for old in candidates {
            let name = old.name_any();
            let current = self.side(old).await?;
            let Some(request) = question::request(&current, &desired, draft.limits()) else { continue };
            let answer = self.core.extensions.call::<CanUpdateMachineSet>(&handler, request.clone()).await;
            let answer = answer.map_err(|error| refused(deployment, &name, &handler.name, error))?;
            let Some(answer) = answer else { continue };
            let remains = question::remaining(&request, &answer).map_err(|error| {
                Error::transient(
                    format!("cannot use the answer of {} about MachineSet {name}", handler.name),
                    error,
                )
            })?;
            if remains.is_empty() {
                movable.insert(name);
            } else {
                tracing::info!(machine_set = %name, remains = remains.join(", "), "cannot be changed in place");
            }
        }
        Ok(movable)
    }

    async fn side(&self, set: &MachineSet) -> Result<Side> {
        let template = &set.spec.template.spec;
        let bootstrap = match &template.bootstrap.config_ref {
            Some(reference) => Some(self.template(set, reference).await?),
            None => None,
        };
        let infrastructure = self.template(set, &template.infrastructure_ref).await?;
        Ok(Side { set: set.clone(), infrastructure, bootstrap })
    }

    async fn template(
        &self,
        set: &MachineSet,
        reference: &ContractVersionedObjectReference,
    ) -> Result<DynamicObject> {
        let found = self.core.externals.get(reference, &set.namespace().unwrap_or_default()).await?;
        found.ok_or_else(|| {
            // Without it nobody can tell what differs, and a guess could cost machines.
            let doing = format!("cannot tell what changes for the Machines of MachineSet {}", set.name_any());
            let missing = format!("{} {} does not exist: make it again", reference.kind, reference.name);
            Error::transient(doing, missing)
        })
    }
}

fn refused(deployment: &MachineDeployment, set: &str, handler: &str, error: CallError) -> Error {
    match error {
        // The user's to change, and told where the user looks.
        CallError::Failure(why) => Error::user(
            format!("MachineDeployment {}", deployment.name_any()),
            format!("refused by {handler}: {why}"),
        ),
        other => Error::transient(format!("cannot ask {handler} about MachineSet {set}"), other),
    }
}
