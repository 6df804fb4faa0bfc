//! MachineSet: keeps a number of equal Machines.
//!
//! Reads: the MachineSet, its Cluster and MachineDeployment, its Machines, their clones, the templates and the control
//! plane.
//! Writes: Machines and their clones of templates, owners of the templates, and of the MachineSet finalizer, owner,
//! labels and status.
//! Phases: observe, own the templates, adopt Machines, remediate, hand the template down, receive Machines, delete
//! leftover clones, scale by a live read, status.

mod act;
pub(crate) mod decide;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod names;
pub(crate) mod observe;
pub mod status;
mod triggers;

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_controller::apply::Applier;
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::{Error, Grounds, Next, Reconciler, Result, finalizers, pause};
use kube::ResourceExt as _;
use kube::api::Api;
use std::sync::Arc;

use crate::Core;
use crate::step::Steps;
use names::FINALIZER;
use observe::{From, Templates};
use status::Seen;

pub use decide::{keep, machine_name, preflight, priority, remediation, scale};
pub use triggers::run;

pub(crate) use act::templates;
pub(crate) use decide::{desired, hand_over, machine};
pub(crate) use observe::{cluster_of, selector};
pub(crate) use status::words;
pub(crate) use triggers::machine_facts;

/// Reconciles MachineSets.
pub struct MachineSetReconciler {
    core: Core,
    spec: Applier,
    metadata: Applier,
    handed_down: act::sync::HandedDown,
}

impl MachineSetReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self {
            core,
            spec: Applier::new(names::FIELD_MANAGER),
            metadata: Applier::new(names::METADATA_FIELD_MANAGER),
            handed_down: act::sync::HandedDown::default(),
        }
    }
}

impl Reconciler for MachineSetReconciler {
    type Object = MachineSet;

    fn name(&self) -> &'static str {
        "machineset"
    }

    fn limits(&self) -> Limits {
        Limits::summing_up()
    }

    fn summaries(&self) -> &'static [&'static str] {
        // Not `upToDateReplicas`: the MachineDeployment waits for them before it deletes old MachineSets.
        &["versions", "MachinesReady", "MachinesUpToDate", "ScalingUp", "ScalingDown", "Remediating"]
    }

    async fn reconcile(&self, object: Arc<MachineSet>) -> Result<Next> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let api: Api<MachineSet> = self.core.api(&namespace);
        // Read again: an old number of replicas would make or delete Machines for nothing.
        let read = self.core.caches.of::<MachineSet>().get(&namespace, &name).await?;
        let Some(before) = read.map(Arc::unwrap_or_clone) else { return Ok(Next::Changed) };
        let cluster = cluster_of(&self.core, &namespace, &before.spec.cluster_name).await?;
        if finalizers::ensure(&api, &before, FINALIZER).await?
            || !pause::allows(&api, &before, Some(&cluster), self.core.now()).await?
        {
            return Ok(Next::Changed);
        }

        let (mut set, mut seen, mut steps) = (before.clone(), Seen::default(), Steps::new());
        Box::pin(self.phases(&cluster, &mut set, &mut seen, &mut steps)).await;
        status::update(&mut set, &seen, self.core.now());
        if steps.succeeded() {
            set.status.get_or_insert_default().observed_generation = set.metadata.generation;
            if decide::is_deleting(&set) && seen.machines.as_ref().is_some_and(Vec::is_empty) {
                finalizers::remove(&mut set.metadata, FINALIZER);
            }
            steps.add(Ok(decide::look_again(&set)));
        }
        pause::lifted(&mut set, self.core.now());
        steps.check(Patcher::new(api, &before).finish(&set, &status::OWNED).await);
        steps.end()
    }
}

/// What a MachineSet is scaled by, besides its Machines.
struct Situation<'a> {
    cluster: &'a Cluster,
    set: &'a MachineSet,
    owner: Option<&'a MachineDeployment>,
    templates: &'a Templates,
}

impl MachineSetReconciler {
    async fn phases(&self, cluster: &Cluster, set: &mut MachineSet, seen: &mut Seen, steps: &mut Steps) {
        let owner = match observe::owner(&self.core, set).await {
            Ok(owner) => owner,
            Err(problem) => return steps.check(Err(problem)),
        };
        decide::defaults::fill(set);
        decide::claim(set, cluster);
        let templates = match self.templates(cluster, set).await {
            Ok(templates) => templates,
            Err(problem) => {
                steps.check(Err(problem));
                Templates::default()
            }
        };
        seen.missing_templates.clone_from(&templates.missing);
        let is_deleting = decide::is_deleting(set);
        let machines = match self.machines(set, From::Memory).await {
            Ok(machines) => machines,
            Err(problem) => return steps.check(Err(problem)),
        };
        if is_deleting {
            return self.delete_all(set, machines, seen, steps).await;
        }
        let machines = seen.machines.insert(machines);
        if let Err(problem) = decide::defaults::fill_replicas(set, machines.len()) {
            return steps.check(Err(problem));
        }
        // A deleted template matters only if Machines are still to be created.
        let is_current = owner.as_ref().is_none_or(|owner| remediation::is_current(set, owner));
        if is_current && let Some(missing) = status::missing_templates(&templates.missing) {
            // Its creation triggers no event: it is watched only once it has an owner.
            let doing = format!("cannot read the templates of MachineSet {}", set.name_any());
            steps.check(Err(Error::transient(doing, missing)));
        }
        steps.add(self.remediate(cluster, set, owner.as_ref(), &templates, machines).await);
        steps.check(self.sync(set, machines).await);
        steps.check(self.receive(set, &templates, machines).await);
        let situation = Situation { cluster, set, owner: owner.as_ref(), templates: &templates };
        self.scale(&situation, seen, steps).await;
    }

    /// Deletes the Machines of a MachineSet that is being deleted. While all of them are terminating, there is nothing to
    /// do. Before one is deleted, and before the MachineSet goes because there is none, the API server is asked.
    async fn delete_all(
        &self,
        set: &MachineSet,
        mut machines: Vec<Machine>,
        seen: &mut Seen,
        steps: &mut Steps,
    ) {
        if machines.is_empty() || !machines.iter().all(machine::is_deleting) {
            machines = match self.machines(set, From::Server).await {
                Ok(live) => live,
                Err(problem) => return steps.check(Err(problem)),
            };
            let names: Vec<String> = machines.iter().map(kube::ResourceExt::name_any).collect();
            let grounds = Grounds::asked("its MachineSet is deleted");
            steps.check(self.delete(set, &mut machines, &names, &grounds).await);
        }
        seen.machines = Some(machines);
    }

    async fn scale(&self, situation: &Situation<'_>, seen: &mut Seen, steps: &mut Steps) {
        let set = situation.set;
        let remembered = seen.machines.as_deref().unwrap_or_default();
        let leftovers = self.leftovers(set).await.unwrap_or_else(|problem| {
            steps.check(Err(problem));
            vec![]
        });
        steps.check(self.clean_up(set, &leftovers).await);
        match scale::decide(set, remembered, self.core.now()) {
            idle if !idle.acts(remembered) => return,
            // While a check fails nothing is created, so no live read is needed.
            scale::Scale::Create(_) if !self.passes_preflight(situation, seen, steps).await => return,
            _ => {}
        }
        // The cache may be a moment old. What makes or deletes something is decided by a live read.
        let mut machines = match self.machines(set, From::Server).await {
            Ok(live) => live,
            Err(problem) => return steps.check(Err(problem)),
        };
        let decision = scale::decide(set, &machines, self.core.now());
        self.carry_out(decision, situation, &mut machines, seen, steps).await;
        // The status counts what was just made, deleted or handed over.
        seen.machines = Some(machines);
    }

    /// Both templates, owned by the Cluster.
    async fn templates(&self, cluster: &Cluster, set: &MachineSet) -> Result<Templates> {
        let found = observe::templates(&self.core, cluster, &set.spec.template).await?;
        templates::own(&self.core, cluster, &set.spec.template, found).await
    }

    /// The Machines that belong to the MachineSet. Those without a controller are adopted.
    async fn machines(&self, set: &MachineSet, from: From) -> Result<Vec<Machine>> {
        let mut machines = observe::machines(&self.core, set, from).await?;
        self.adopt(set, &mut machines).await?;
        Ok(machines)
    }
}
