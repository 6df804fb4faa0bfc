//! Writes, adopts and deletes MachineSets, as was decided.

use capstan_api::core::{MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::error::Doing as _;
use capstan_controller::events::Tone;
use capstan_controller::{Error, Grounds, Result, destroy, owners};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use super::MachineDeploymentReconciler;
use super::decide::belongs;
use super::decide::rollout::{self, Decision};
use super::names::REVISION;
use crate::machineset::desired::controller;
use crate::machineset::selector;
use crate::names::events;

impl MachineDeploymentReconciler {
    /// Writes the MachineSets, the new one first, and deletes those that have done their work.
    pub(super) async fn carry_out(
        &self,
        deployment: &mut MachineDeployment,
        sets: &[MachineSet],
        decision: Decision,
    ) -> Result<()> {
        for (set, why) in &decision.notes {
            tracing::info!(machine_deployment = %deployment.name_any(), machine_set = %set, %why, "scales");
        }
        let is_there = |wanted: &&MachineSet| sets.iter().any(|set| set.name_any() == wanted.name_any());
        let new: Vec<&MachineSet> = decision.sets.iter().filter(|wanted| !is_there(wanted)).collect();
        if !new.is_empty() {
            self.confirm(deployment, sets, &new).await?;
        }
        let api: Api<MachineSet> = self.core.api(&deployment.namespace().unwrap_or_default());
        let mut new = None;
        for wanted in &decision.sets {
            let current = sets.iter().find(|set| set.name_any() == wanted.name_any());
            // Its machines are deleted in any case.
            if current.is_none_or(|current| current.metadata.deletion_timestamp.is_none()) {
                self.applier.apply(&api, current, wanted).await?;
                if current.is_none() {
                    let message = format!("created MachineSet {}", wanted.name_any());
                    self.core.publish_event(&*deployment, Tone::Normal, events::CREATED, &message).await;
                }
            }
            if decision.revision.is_some() && new.is_none() {
                new = Some(wanted.name_any());
            }
        }
        if let Some(revision) = decision.revision {
            deployment.metadata.annotations.get_or_insert_default().insert(REVISION.to_owned(), revision);
        }
        if new.is_some() && rollout::is_complete(deployment, sets) {
            let old = sets.iter().filter(|set| Some(set.name_any()) != new && rollout::is_spent(set));
            self.delete(old, "has done its work").await?;
        }
        Ok(())
    }

    /// Adopts the MachineSets without a controller.
    pub(super) async fn adopt(&self, deployment: &MachineDeployment, sets: &mut [MachineSet]) -> Result<()> {
        let api: Api<MachineSet> = self.core.api(&deployment.namespace().unwrap_or_default());
        for set in sets {
            let labelled = set.labels().get(labels::DEPLOYMENT_NAME) == Some(&deployment.name_any());
            if labelled && owners::controller_of(&set.metadata).is_some() {
                continue;
            }
            let Some(owner) = controller(deployment) else { continue };
            owners::ensure(&mut set.metadata, &owner);
            let name = set.name_any();
            let patch = json!({"metadata": {
                "resourceVersion": set.resource_version(),
                "ownerReferences": set.metadata.owner_references,
                "labels": {labels::DEPLOYMENT_NAME: deployment.name_any()},
            }});
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            *set = patched.doing(|| format!("cannot adopt MachineSet {name}"))?;
        }
        Ok(())
    }

    /// Asks the API server whether the MachineSets are those that were seen: memory may be a moment old, and a second new
    /// one would be made for nothing. Nor may a new one be applied to another that has its name.
    async fn confirm(
        &self,
        deployment: &MachineDeployment,
        seen: &[MachineSet],
        new: &[&MachineSet],
    ) -> Result<()> {
        let api: Api<MachineSet> = self.core.api(&deployment.namespace().unwrap_or_default());
        let selector = selector(&deployment.spec.selector, "MachineDeployment", &deployment.name_any())?;
        let doing = || "cannot list MachineSets".to_owned();
        let of_cluster = format!("{}={}", labels::CLUSTER_NAME, deployment.spec.cluster_name);
        let mut listed = api.list(&ListParams::default().labels(&of_cluster)).await.doing(doing)?;
        for new in new {
            // One of another cluster may have the name.
            listed.items.extend(api.get_opt(&new.name_any()).await.doing(doing)?);
        }
        let is_news = |live: &MachineSet| {
            let is_seen = seen.iter().any(|seen| seen.uid() == live.uid());
            let is_in_the_way = new.iter().any(|new| new.name_any() == live.name_any());
            is_in_the_way || (belongs(live, deployment, &selector) && !is_seen)
        };
        match listed.items.iter().any(is_news) {
            false => Ok(()),
            true => Err(Error::Conflict { doing: "cannot make a MachineSet: others have come".to_owned() }),
        }
    }

    /// Asks for the deletion of MachineSets.
    pub(super) async fn delete(&self, sets: impl Iterator<Item = &MachineSet>, why: &str) -> Result<()> {
        for set in sets {
            let api = self.core.api::<MachineSet>(&set.namespace().unwrap_or_default());
            destroy::delete(&api, &set.metadata, &Grounds::asked(why)).await?;
        }
        Ok(())
    }
}
