//! Asking an extension which MachineSets' Machines can be changed in place.

use capstan_api::core::{MachineDeployment, MachineSet};
use capstan_api::keep::{self, ReplacePolicy};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_api::runtime::annotations::REPLACE_POLICY;
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
            let why = "no runtime extension is registered that could change them in place";
            for old in candidates {
                may_be_replaced(deployment, old, why)?;
            }
            return Ok(movable);
        };
        let desired = self.side(new).await?;
        for old in candidates {
            let name = old.name_any();
            let current = self.side(old).await?;
            let Some(request) = question::request(&current, &desired, draft.limits()) else {
                may_be_replaced(deployment, old, "only one of both has a bootstrap template")?;
                continue;
            };
            let answer = self.core.extensions.call::<CanUpdateMachineSet>(&handler, request.clone()).await;
            let answer = answer.map_err(|error| refused(deployment, &name, &handler.name, error))?;
            let Some(answer) = answer else {
                may_be_replaced(deployment, old, &format!("{} gave no answer", handler.name))?;
                continue;
            };
            let remains = question::remaining(&request, &answer).map_err(|error| {
                Error::transient(
                    format!("cannot use the answer of {} about MachineSet {name}", handler.name),
                    error,
                )
            })?;
            if remains.is_empty() {
                movable.insert(name);
            } else {
                let why = format!("these fields cannot be changed in place: {}", remains.join(", "));
                may_be_replaced(deployment, old, &why)?;
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

/// Refuses a rollout that would replace kept machines, unless the policy allows it.
fn may_be_replaced(deployment: &MachineDeployment, old: &MachineSet, why: &str) -> Result<()> {
    if !keep::is_kept(&old.spec.template.spec) {
        return Ok(());
    }
    let name = deployment.name_any();
    let field = format!("MachineDeployment {name} annotation {REPLACE_POLICY}");
    match ReplacePolicy::of(deployment.annotations()) {
        Ok(ReplacePolicy::WhenNeeded) => Ok(()),
        Ok(ReplacePolicy::Never) => Err(Error::user(
            field,
            format!(
                "the change would replace the kept Machines of MachineSet {}, because {why}: set it to WhenNeeded to \
                 allow that, or undo the change",
                old.name_any()
            ),
        )),
        Err(misspelt) => Err(Error::user(format!("MachineDeployment {name}"), misspelt)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinedeployment::fixtures::deployment;
    use crate::machineset::fixtures::machine_set;
    use serde_json::json;

    #[test]
    fn kept_machines_are_replaced_only_where_the_policy_allows_it() {
        let kept =
            json!({"spec": {"template": {"spec": {"infrastructureRef": {"kind": "HostMachineTemplate"}}}}});
        let says = |policy: Option<&str>| match policy {
            Some(policy) => deployment(&json!({"metadata": {"annotations": {REPLACE_POLICY: policy}}})),
            None => deployment(&json!({})),
        };
        for (fields, policy, expected) in [
            (&json!({}), None, None),
            (&kept, Some("WhenNeeded"), None),
            (&kept, None, Some("set it to WhenNeeded")),
            (&kept, Some("Never"), Some("because so")),
            (&kept, Some("sometimes"), Some("must be Never or WhenNeeded")),
        ] {
            let refused = may_be_replaced(&says(policy), &machine_set("old", 3, fields), "so").err();
            let told = refused.map(|error| capstan_controller::error::chain(&error));
            match expected {
                None => assert_eq!(told, None, "{policy:?}"),
                Some(expected) => assert!(told.as_ref().is_some_and(|t| t.contains(expected)), "{told:?}"),
            }
        }
    }
}
