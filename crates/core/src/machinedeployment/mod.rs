//! MachineDeployment: rolls machines from one template to the next.
//!
//! Reads: the MachineDeployment, its Cluster, its MachineSets and Machines, the templates, and the answers of an
//! extension about them.
//! Writes: MachineSets, owners of the templates, and of the MachineDeployment finalizer, owner, labels, what is unset in
//! its spec, and status.
//! Phases: observe, adopt MachineSets, own the templates, draft the MachineSets, ask the extension what can be updated
//! in place, decide, write the MachineSets, status.

mod act;
mod decide;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod foresee;
pub mod names;
mod observe;
pub mod status;
mod triggers;

use capstan_api::core::{Cluster, MachineDeployment, MachineSet};
use capstan_api::runtime::hooks::{CanUpdateMachineSet, CanUpdateMachineSetResponse};
use capstan_controller::apply::Applier;
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::{Error, Next, Reconciler, Result, finalizers, owners, pause};
use kube::ResourceExt as _;
use kube::api::Api;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::Core;
use crate::machineset::observe::{Templates, templates as read_templates};
use crate::machineset::{cluster_of, templates};
use crate::runtime::response_cache::ResponseCache;
use crate::step::Steps;
use decide::replace::{self, Reply};
use decide::rollout::{self, Decision, Draft, Observed, Problem};
use names::FINALIZER;
use status::Seen;

pub use decide::{limits, on_delete, plan, proportional, select};
pub use triggers::run;

/// What is known about updates in place.
#[derive(Default)]
struct InPlace {
    /// Names of the MachineSets whose Machines can be updated in place.
    movable: BTreeSet<String>,
    /// Whether there are Machines to change, and no extension that could be asked, by the cache.
    is_unserved: bool,
}

/// Reconciles MachineDeployments.
pub struct MachineDeploymentReconciler {
    core: Core,
    applier: Applier,
    /// Answers to questions that were asked before.
    response_cache: ResponseCache<CanUpdateMachineSetResponse>,
}

impl MachineDeploymentReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core, applier: Applier::new(names::FIELD_MANAGER), response_cache: ResponseCache::default() }
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

    fn summaries(&self) -> &'static [&'static str] {
        // Roll-outs are decided on what MachineSets say. `Available` is not among them: people and scripts wait for it.
        &[
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "upToDateReplicas",
            "versions",
            "MachinesReady",
            "MachinesUpToDate",
            "ScalingUp",
            "ScalingDown",
            "Remediating",
        ]
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
        decide::defaults::fill(deployment);
        if let Some(owner) = owners::plain(cluster) {
            owners::ensure(&mut deployment.metadata, &owner);
        }
        // MachineSets before Machines: a Machine that an old MachineSet no longer counts is seen in the new one.
        let others = match self.sets(deployment).await {
            Ok(observe::Sets { ours, others }) => {
                seen.sets = Some(ours);
                others
            }
            Err(problem) => return steps.check(Err(problem)),
        };
        let sets = seen.sets.as_deref().unwrap_or_default();
        if let Err(problem) = decide::defaults::fill_replicas(deployment, sets) {
            return steps.check(Err(problem));
        }
        match observe::machines(&self.core, deployment).await {
            Ok(machines) => seen.machines = machines,
            Err(problem) => return steps.check(Err(problem)),
        }
        let sets = seen.sets.as_deref().unwrap_or_default();
        if deployment.metadata.deletion_timestamp.is_some() {
            let alive = sets.iter().filter(|set| set.metadata.deletion_timestamp.is_none());
            return steps.check(self.delete(alive, "MachineDeployment is deleted").await);
        }
        match self.templates(cluster, deployment).await {
            Ok(templates) => seen.missing_templates = templates.missing,
            Err(problem) => return steps.check(Err(problem)),
        }
        let observed = Observed {
            deployment,
            sets,
            others: &others,
            machines: &seen.machines,
            templates_exist: seen.missing_templates.is_empty(),
            now: self.core.now(),
        };
        let name = deployment.name_any();
        match rollout::draft(&observed) {
            Ok(draft) => match self.decision(deployment, sets, draft).await {
                Ok(decision) => steps.check(self.carry_out(deployment, sets, decision).await),
                // Nothing is written: a change that is refused must not be begun either.
                Err(problem) => {
                    seen.held = Some(capstan_controller::error::chain(&problem));
                    steps.check(Err(problem));
                }
            },
            // Their creation triggers no event: they are watched only once they have an owner.
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
        steps.add(Ok(decide::until_rollout(deployment, self.core.now())));
    }

    /// The MachineSets that belong to the MachineDeployment. Those without a controller are adopted.
    async fn sets(&self, deployment: &MachineDeployment) -> Result<observe::Sets> {
        let mut sets = observe::sets(&self.core, deployment).await?;
        self.adopt(deployment, &mut sets.ours).await?;
        Ok(sets)
    }

    /// Both templates, owned by the Cluster.
    async fn templates(&self, cluster: &Cluster, deployment: &MachineDeployment) -> Result<Templates> {
        let template = &deployment.spec.template;
        let found = read_templates(&self.core, cluster, template).await?;
        templates::own(&self.core, cluster, template, found).await
    }

    /// What the MachineSets should be, by what can be updated in place.
    ///
    /// # Errors
    /// If an extension cannot say or refuses the change, or if kept machines would be replaced: then nothing may be
    /// rolled out.
    async fn decision(
        &self,
        deployment: &MachineDeployment,
        sets: &[MachineSet],
        draft: Draft,
    ) -> Result<Decision> {
        let InPlace { movable, is_unserved } = self.in_place(deployment, &draft).await?;
        let decision = draft.decide(&movable);
        if is_unserved && replace::replaces(sets, &decision) {
            self.confirm_unserved(deployment).await?;
        }
        Ok(decision)
    }

    /// Asks the API server whether no extension serves the hook. The cache may be a moment old, and an extension that was
    /// just registered must be asked before Machines are replaced.
    async fn confirm_unserved(&self, deployment: &MachineDeployment) -> Result<()> {
        let namespace = deployment.namespace().unwrap_or_default();
        match self.core.extensions.serving_now::<CanUpdateMachineSet>(&namespace).await? {
            None => Ok(()),
            Some(handler) => {
                let doing = format!("cannot roll out MachineDeployment {}", deployment.name_any());
                Err(Error::transient(doing, format!("{} was just registered", handler.name)))
            }
        }
    }

    /// Which of the old MachineSets have Machines that can be updated in place to what the new one says.
    async fn in_place(&self, deployment: &MachineDeployment, draft: &Draft) -> Result<InPlace> {
        let mut movable = BTreeSet::new();
        let Some((new, candidates)) = draft.candidates() else { return Ok(InPlace::default()) };
        let namespace = deployment.namespace().unwrap_or_default();
        let asked = match self.core.extensions.serving::<CanUpdateMachineSet>(&namespace).await? {
            Some(handler) => Some((handler, observe::side(&self.core, new).await?)),
            None => None,
        };
        for old in candidates {
            let reply = match &asked {
                None => Reply::NoExtension,
                Some((handler, desired)) => {
                    self.reply(deployment, handler, (old, desired), draft.limits()).await?
                }
            };
            let is_movable = replace::is_movable(deployment, old, &reply);
            if is_movable.is_err() && asked.is_none() {
                // The refusal lasts until the user acts.
                self.confirm_unserved(deployment).await?;
            }
            if is_movable? {
                movable.insert(old.name_any());
            } else if let Reply::Remaining(fields) = reply {
                let remains = fields.join(", ");
                tracing::info!(machine_set = %old.name_any(), remains, "cannot be changed in place");
            }
        }
        Ok(InPlace { movable, is_unserved: asked.is_none() })
    }
}
