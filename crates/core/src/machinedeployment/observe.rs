//! Reads what decisions about a MachineDeployment are made from, and asks the extension. Writes nothing.

use capstan_api::core::{Machine, MachineDeployment, MachineSet};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_api::runtime::hooks::{
    CanUpdateMachineSet, CanUpdateMachineSetRequest, CanUpdateMachineSetResponse,
};
use capstan_controller::{Error, Result};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::SelectorExt as _;

use super::MachineDeploymentReconciler;
use super::decide::belongs;
use super::decide::draft_name;
use super::decide::limits::Limits;
use super::decide::question::{self, Side};
use super::decide::replace::{Reply, refused};
use crate::Core;
use crate::machineset::selector;
use crate::runtime::response_cache::CacheKey;
use crate::runtime::{CallError, Handler};

/// The MachineSets of a namespace, as a MachineDeployment sees them.
pub(super) struct Sets {
    /// Those that belong to it, or may be adopted by it.
    pub(super) ours: Vec<MachineSet>,
    /// Names of all others of its cluster that begin like those of its own.
    pub(super) others: Vec<String>,
}

/// The MachineSets of the cluster of the MachineDeployment.
pub(super) async fn sets(core: &Core, deployment: &MachineDeployment) -> Result<Sets> {
    let namespace = deployment.namespace().unwrap_or_default();
    let selector = selector(&deployment.spec.selector, "MachineDeployment", &deployment.name_any())?;
    // By owner, too: one that is ours may have lost the labels that say so.
    let cache = core.caches.of::<MachineSet>();
    let mut listed = cache.of_cluster(&namespace, &deployment.spec.cluster_name).await?;
    listed.extend(cache.of_owner(&deployment.uid().unwrap_or_default()).await?);
    listed.sort_by_key(|set| set.name_any());
    listed.dedup_by_key(|set| set.uid());
    let base = draft_name::base(deployment);
    let mut sets = Sets { ours: vec![], others: vec![] };
    for set in &listed {
        if belongs(set, deployment, &selector) {
            sets.ours.push(set.as_ref().clone());
        } else if set.metadata.name.as_ref().is_some_and(|name| name.starts_with(&base)) {
            sets.others.push(set.name_any());
        }
    }
    Ok(sets)
}

pub(super) async fn machines(core: &Core, deployment: &MachineDeployment) -> Result<Vec<Machine>> {
    let namespace = deployment.namespace().unwrap_or_default();
    let selector = selector(&deployment.spec.selector, "MachineDeployment", &deployment.name_any())?;
    let cache = core.caches.of::<Machine>();
    let listed = cache.of_cluster(&namespace, &deployment.spec.cluster_name).await?;
    let ours = listed.iter().filter(|machine| selector.matches(machine.labels()));
    Ok(ours.map(|machine| machine.as_ref().clone()).collect())
}

/// A MachineSet with the templates it refers to.
pub(super) async fn side(core: &Core, set: &MachineSet) -> Result<Side> {
    let spec = &set.spec.template.spec;
    let bootstrap = match &spec.bootstrap.config_ref {
        Some(reference) => Some(template(core, set, reference).await?),
        None => None,
    };
    let infrastructure = template(core, set, &spec.infrastructure_ref).await?;
    Ok(Side { set: set.clone(), infrastructure, bootstrap })
}

async fn template(
    core: &Core,
    set: &MachineSet,
    reference: &ContractVersionedObjectReference,
) -> Result<DynamicObject> {
    let found = core.externals.get(reference, &set.namespace().unwrap_or_default()).await?;
    found.ok_or_else(|| {
        // Without it the differences are unknown, and a guess could cost machines.
        let doing = format!("cannot tell what changes for the Machines of MachineSet {}", set.name_any());
        let missing = format!("{} {} does not exist: make it again", reference.kind, reference.name);
        Error::transient(doing, missing)
    })
}

impl MachineDeploymentReconciler {
    /// Asks the extension whether the Machines of `old` can be updated in place to what `desired` says.
    ///
    /// # Errors
    /// If the extension cannot say, or refuses the change.
    pub(super) async fn reply(
        &self,
        deployment: &MachineDeployment,
        handler: &Handler,
        (old, desired): (&MachineSet, &Side),
        limits: Limits,
    ) -> Result<Reply> {
        let name = old.name_any();
        let current = side(&self.core, old).await?;
        let Some(request) = question::request(&current, desired, limits) else {
            return Ok(Reply::NothingToAsk);
        };
        let answer = self.answer(handler, &request).await;
        let answer = answer.map_err(|error| refused(deployment, &name, &handler.name, error))?;
        let Some(answer) = answer else { return Ok(Reply::NoAnswer { handler: handler.name.clone() }) };
        let remaining = question::remaining(&request, &answer).map_err(|error| {
            let doing = format!("cannot use the answer of {} about MachineSet {name}", handler.name);
            Error::transient(doing, error)
        })?;
        Ok(Reply::Remaining(remaining))
    }

    /// The answer of the extension: from the cache, if the same was asked a short time ago.
    async fn answer(
        &self,
        handler: &Handler,
        request: &CanUpdateMachineSetRequest,
    ) -> std::result::Result<Option<CanUpdateMachineSetResponse>, CallError> {
        let asked = CacheKey::new::<CanUpdateMachineSet>(handler, request.clone())?;
        if let Some(known) = self.response_cache.get(&asked, self.core.now()) {
            return Ok(Some(known));
        }
        let answer = self.core.extensions.call::<CanUpdateMachineSet>(handler, request.clone()).await?;
        if let Some(answer) = answer.as_ref().filter(|answer| question::is_decision(request, answer)) {
            self.response_cache.put(asked, answer.clone(), self.core.now());
        }
        Ok(answer)
    }
}
