//! MachineDeployment: rolls machines from one template to the next.
//!
//! Reads: the MachineDeployment, its Cluster, its MachineSets and Machines, the templates, and what an extension says of
//! them. Writes:
//! MachineSets, owners of the templates, and of the MachineDeployment finalizer, owner, labels, what is unset in its
//! spec, and status.

mod ask;
mod defaults;
mod desired;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod foresee;
pub mod limits;
pub mod names;
pub mod on_delete;
pub mod plan;
pub mod proportional;
mod question;
mod received;
mod revision;
mod rollout;
pub mod select;
pub mod status;
mod triggers;

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::apply::Applier;
use capstan_controller::error::Doing as _;
use capstan_controller::events::Tone;
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::{Error, Grounds, Next, Reconciler, Result, destroy, finalizers, owners, pause};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{Selector, SelectorExt as _};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

use crate::Core;
use crate::machineset::{cluster_of, selector, templates};
use crate::names::events;
use crate::step::Steps;
use names::{FINALIZER, REVISION};
use rollout::{Decision, Observed, Problem};
use status::Seen;

pub use triggers::run;

/// Reconciles MachineDeployments.
pub struct MachineDeploymentReconciler {
    core: Core,
    applier: Applier,
}

impl MachineDeploymentReconciler {
    /// A reconciler on these clients.
    pub fn new(core: Core) -> Self {
        Self { core, applier: Applier::new(names::FIELD_MANAGER) }
    }
}

impl Reconciler for MachineDeploymentReconciler {
    type Object = MachineDeployment;

    fn name(&self) -> &'static str {
        "machinedeployment"
    }

    fn limits(&self) -> Limits {
        Limits::summing_up()
    }

    async fn reconcile(&self, object: Arc<MachineDeployment>) -> Result<Next> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let api: Api<MachineDeployment> = self.core.api(&namespace);
        // Read again: an old template would make a MachineSet for nothing.
        let read = self.core.caches.of::<MachineDeployment>().get(&namespace, &name).await?;
        let Some(before) = read.map(Arc::unwrap_or_clone) else { return Ok(Next::Changed) };
        let cluster = cluster_of(&self.core, &namespace, &before.spec.cluster_name).await?;
        if finalizers::ensure(&api, &before, FINALIZER).await?
            || !pause::allows(&api, &before, Some(&cluster), self.core.now()).await?
        {
            return Ok(Next::Changed);
        }

        let (mut deployment, mut seen, mut steps) = (before.clone(), Seen::default(), Steps::new());
        Box::pin(self.phases(&cluster, &mut deployment, &mut seen, &mut steps)).await;
        status::update(&mut deployment, &seen, self.core.now());
        if steps.succeeded() {
            deployment.status.get_or_insert_default().observed_generation = deployment.metadata.generation;
            let is_deleting = deployment.metadata.deletion_timestamp.is_some();
            if is_deleting && seen.sets.as_ref().is_some_and(Vec::is_empty) {
                finalizers::remove(&mut deployment.metadata, FINALIZER);
            }
        }
        pause::lifted(&mut deployment, self.core.now());
        steps.check(Patcher::new(api, &before).finish(&deployment, &status::OWNED).await);
        steps.end()
    }
}

impl MachineDeploymentReconciler {
    async fn phases(
        &self,
        cluster: &Cluster,
        deployment: &mut MachineDeployment,
        seen: &mut Seen,
        steps: &mut Steps,
    ) {
        defaults::fill(deployment);
        if let Some(owner) = owners::plain(cluster) {
            owners::ensure(&mut deployment.metadata, &owner);
        }
        // MachineSets before Machines: a Machine that an old MachineSet no longer counts is seen in the new one.
        match self.sets(deployment).await {
            Ok(sets) => seen.sets = Some(sets),
            Err(problem) => return steps.check(Err(problem)),
        }
        match self.machines(deployment).await {
            Ok(machines) => seen.machines = machines,
            Err(problem) => return steps.check(Err(problem)),
        }
        let sets = seen.sets.as_deref().unwrap_or_default();
        if deployment.metadata.deletion_timestamp.is_some() {
            let alive = sets.iter().filter(|set| set.metadata.deletion_timestamp.is_none());
            return steps.check(self.delete(alive, "MachineDeployment is deleted").await);
        }
        match templates::claim(&self.core, cluster, &deployment.spec.template).await {
            Ok(templates) => seen.missing_templates = templates.missing,
            Err(problem) => return steps.check(Err(problem)),
        }
        let observed = Observed {
            deployment,
            sets,
            machines: &seen.machines,
            templates_exist: seen.missing_templates.is_empty(),
            now: self.core.now(),
        };
        let name = deployment.name_any();
        match rollout::draft(&observed) {
            Ok(draft) => match self.ask(deployment, &draft).await {
                Ok(movable) => {
                    let decision = draft.decide(&movable);
                    steps.check(self.carry_out(deployment, sets, decision).await);
                }
                // Nothing is written: a change that nobody wants must not be begun either.
                Err(problem) => {
                    seen.held = Some(capstan_controller::error::chain(&problem));
                    steps.check(Err(problem));
                }
            },
            // Nobody tells when they appear: they are not ours to watch before they have an owner.
            Err(problem @ Problem::NoTemplates) => {
                steps.check(Err(Error::transient(
                    format!("cannot roll out MachineDeployment {name}"),
                    problem,
                )));
            }
            Err(problem @ Problem::Limits(_)) => {
                steps.check(Err(Error::user(format!("MachineDeployment {name}"), problem.to_string())));
            }
        }
        steps.add(Ok(self.until_rollout(deployment)));
    }

    async fn carry_out(
        &self,
        deployment: &mut MachineDeployment,
        sets: &[MachineSet],
        decision: Decision,
    ) -> Result<()> {
        for (set, why) in &decision.notes {
            tracing::info!(machine_deployment = %deployment.name_any(), machine_set = %set, %why, "scales");
        }
        let is_there = |wanted: &MachineSet| sets.iter().any(|set| set.name_any() == wanted.name_any());
        if !decision.sets.iter().all(is_there) {
            self.confirm(deployment, sets).await?;
        }
        let api: Api<MachineSet> = self.core.api(&deployment.namespace().unwrap_or_default());
        let mut new = None;
        for wanted in &decision.sets {
            let current = sets.iter().find(|set| set.name_any() == wanted.name_any());
            // Its machines go whatever it is told.
            if current.is_none_or(|current| current.metadata.deletion_timestamp.is_none()) {
                self.applier.apply(&api, current, wanted).await?;
                if current.is_none() {
                    let told = format!("created MachineSet {}", wanted.name_any());
                    self.core.tell(&*deployment, Tone::Normal, events::CREATED, &told).await;
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

    /// The MachineSets that belong to the MachineDeployment; those that nobody controls are adopted.
    async fn sets(&self, deployment: &MachineDeployment) -> Result<Vec<MachineSet>> {
        let namespace = deployment.namespace().unwrap_or_default();
        let api: Api<MachineSet> = self.core.api(&namespace);
        let selector = selector(&deployment.spec.selector, "MachineDeployment", &deployment.name_any())?;
        // All of them: one that is ours may have lost the labels that say so.
        let listed = self.core.caches.of::<MachineSet>().in_namespace(&namespace).await?;
        let ours = listed.iter().filter(|set| belongs(set, deployment, &selector));
        let mut sets: Vec<MachineSet> = ours.map(|set| set.as_ref().clone()).collect();
        for set in &mut sets {
            let labelled = set.labels().get(labels::DEPLOYMENT_NAME) == Some(&deployment.name_any());
            if labelled && owners::controller_of(&set.metadata).is_some() {
                continue;
            }
            let Some(owner) = crate::machineset::desired::controller(deployment) else { continue };
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
        Ok(sets)
    }

    /// Asks the API server whether the MachineSets are those that were seen: memory may be a moment old, and a second new
    /// one would be made for nothing.
    async fn confirm(&self, deployment: &MachineDeployment, seen: &[MachineSet]) -> Result<()> {
        let api: Api<MachineSet> = self.core.api(&deployment.namespace().unwrap_or_default());
        let selector = selector(&deployment.spec.selector, "MachineDeployment", &deployment.name_any())?;
        let listed = api.list(&ListParams::default()).await.doing(|| "cannot list MachineSets".to_owned())?;
        let mut live = listed.items.iter().filter(|set| belongs(set, deployment, &selector));
        match live.all(|live| seen.iter().any(|seen| seen.uid() == live.uid())) {
            true => Ok(()),
            false => Err(Error::Conflict { doing: "cannot make a MachineSet: others have come".to_owned() }),
        }
    }

    async fn machines(&self, deployment: &MachineDeployment) -> Result<Vec<Machine>> {
        let namespace = deployment.namespace().unwrap_or_default();
        let selector = selector(&deployment.spec.selector, "MachineDeployment", &deployment.name_any())?;
        let cache = self.core.caches.of::<Machine>();
        let listed = cache.of_cluster(&namespace, &deployment.spec.cluster_name).await?;
        let ours = listed.iter().filter(|machine| selector.matches(machine.labels()));
        Ok(ours.map(|machine| machine.as_ref().clone()).collect())
    }

    async fn delete(&self, sets: impl Iterator<Item = &MachineSet>, why: &str) -> Result<()> {
        for set in sets {
            let api = self.core.api::<MachineSet>(&set.namespace().unwrap_or_default());
            destroy::delete(&api, &set.metadata, &Grounds::asked(why)).await?;
        }
        Ok(())
    }

    /// A rollout by time has to be begun when the time comes.
    fn until_rollout(&self, deployment: &MachineDeployment) -> Next {
        let after = deployment.spec.rollout.as_ref().and_then(|rollout| rollout.after.as_ref());
        let left = after.map(|after| after.0.duration_since(self.core.now()));
        match left.and_then(|left| Duration::try_from(left).ok()).filter(|left| !left.is_zero()) {
            Some(left) => Next::After(left),
            None => Next::Changed,
        }
    }
}

/// Whether a MachineSet is the MachineDeployment's, or may become it.
fn belongs(set: &MachineSet, deployment: &MachineDeployment, selector: &Selector) -> bool {
    match owners::controller_of(&set.metadata) {
        Some(_) => owners::is_controlled_by(&set.metadata, deployment),
        None => selector.matches(set.labels()),
    }
}
