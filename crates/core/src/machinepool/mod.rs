//! MachinePool: a group of machines that the infrastructure provider makes and scales as one.
//!
//! Reads: the MachinePool, its Cluster, the two objects it refers to, the infrastructure machines of the pool, its Machines, and
//! the Nodes of the workload cluster.
//! Writes: owners and label of the two objects, Machines for infrastructure machines and their condition `UpToDate`, annotations
//! and one taint of Nodes of a pool without Machines, deletions of the two objects and of Nodes, and of the MachinePool
//! finalizer, owner, label, the fields that providers fill in, and status.
//! Phases: observe; own the two objects, take over from the providers, make Machines, find the Nodes, delete those of machines
//! that have left the pool; or delete both objects and the Nodes; status.

mod act;
mod decide;
pub mod names;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

use capstan_api::core::MachinePool;
use capstan_controller::apply::Applier;
use capstan_controller::events::Tone;
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::text::listed;
use capstan_controller::{Knowledge, Next, Reconciler, Result, finalizers, pause};
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::sync::Arc;

use crate::Core;
use crate::names::events;
use crate::step::Steps;
use decide::delete::{self, Deletion};
use decide::{defaults, machines, nodes, provision};
use names::FINALIZER;
use observe::Observed;

pub use triggers::run;

/// How many Nodes an event names.
const NAMES: usize = 5;

/// Reconciles MachinePools.
pub struct MachinePoolReconciler {
    core: Core,
    applier: Applier,
}

impl MachinePoolReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core, applier: Applier::new(names::FIELD_MANAGER) }
    }
}

impl Reconciler for MachinePoolReconciler {
    type Object = MachinePool;

    fn name(&self) -> &'static str {
        "machinepool"
    }

    fn limits(&self) -> Limits {
        Limits::summing_up()
    }

    fn summaries(&self) -> &'static [&'static str] {
        // Not `initialization`, `replicas` and `nodeRefs`: providers and autoscalers wait for them.
        &["versions", "deprecated", "MachinesReady", "MachinesUpToDate", "ScalingUp", "ScalingDown"]
    }

    async fn reconcile(&self, object: Arc<MachinePool>) -> Result<Next> {
        let core = &self.core;
        let api = core.api::<MachinePool>(&object.namespace().unwrap_or_default());
        let now = core.now();
        let cluster = observe::cluster(core, &object).await?;
        if finalizers::ensure(&api, object.as_ref(), FINALIZER).await?
            || !pause::allows(&api, object.as_ref(), Some(&cluster), now).await?
        {
            return Ok(Next::Changed);
        }

        let mut steps = Steps::new();
        let mut pool = object.as_ref().clone();
        defaults::claim(&mut pool, &cluster);
        let mut observed = observe::observe(core, &pool, cluster, &mut steps).await;
        let mut deletion = None;
        match defaults::is_deleting(&pool) {
            true => deletion = Some(Box::pin(self.delete(&pool, &observed, now, &mut steps)).await),
            false => Box::pin(self.provision(&mut pool, &mut observed, now, &mut steps)).await,
        }

        status::update(&mut pool, &observed, deletion.as_ref(), now);
        if steps.succeeded() {
            pool.status.get_or_insert_default().observed_generation = pool.metadata.generation;
            if deletion.is_some_and(|deletion| deletion.is_done) {
                finalizers::remove(&mut pool.metadata, FINALIZER);
            }
        }
        pause::lifted(&mut pool, now);
        let written = Patcher::new(api, object.as_ref()).finish(&pool, &status::OWNED).await;
        let is_written = written.is_ok();
        steps.check(written);
        if is_written {
            self.publish_nodes(&object, &pool).await;
        }
        steps.end()
    }
}

impl MachinePoolReconciler {
    async fn provision(
        &self,
        pool: &mut MachinePool,
        observed: &mut Observed,
        now: Timestamp,
        steps: &mut Steps,
    ) {
        let core = &self.core;
        steps.check(defaults::fill_replicas(pool));
        steps.check(act::claim(core, pool, observed).await);
        steps.add(provision::bootstrap(pool, &observed.bootstrap));
        steps.add(provision::infrastructure(pool, &observed.infrastructure));
        self.machines(pool, observed, steps).await;
        self.nodes(pool, observed, now, steps).await;
    }

    /// A Machine for each infrastructure machine.
    async fn machines(&self, pool: &MachinePool, observed: &mut Observed, steps: &mut Steps) {
        let Knowledge::Known(machines) = &mut observed.machines else { return };
        if let (Some(kind), Knowledge::Known(infrastructure)) =
            (&observed.machine_kind, &observed.infrastructure_machines)
        {
            let wanted = machines::wanted(pool, kind, infrastructure, machines, &observed.nodes);
            for one in &wanted {
                match act::apply_machine(&self.core, &self.applier, pool, one).await {
                    Ok(made) => machines.extend(made),
                    Err(problem) => steps.check(Err(problem)),
                }
            }
        }
        for machine in machines {
            steps.check(act::judge_machine(&self.core, machine).await);
        }
    }

    /// The Nodes of the pool. Those of machines that have left it are deleted.
    async fn nodes(
        &self,
        pool: &mut MachinePool,
        observed: &mut Observed,
        now: Timestamp,
        steps: &mut Steps,
    ) {
        let Knowledge::Known(found) = &observed.nodes else { return };
        let matched = nodes::matched(pool, found, now);
        steps.add(Ok(matched.next));
        if provision::is_list_settled(pool) {
            let deleted = match &observed.machines {
                Knowledge::Known(machines) => {
                    let retired = nodes::retired(pool, found, machines);
                    act::delete_nodes(&self.core, pool, &retired, "its machine has left the MachinePool")
                        .await
                }
                Knowledge::Unknown(_) => Ok(()),
            };
            // A Node that could not be deleted must not be forgotten.
            if deleted.is_ok() {
                pool.status.get_or_insert_default().node_refs.clone_from(&matched.refs);
            }
            steps.check(deleted);
        }
        // The controller of Machines writes the Nodes of Machines.
        if !observed.has_machines() {
            for node in &matched.nodes {
                steps.check(act::write_node(&self.core, pool, node).await);
            }
        }
        observed.matched = Some(matched);
    }

    async fn delete(
        &self,
        pool: &MachinePool,
        observed: &Observed,
        now: Timestamp,
        steps: &mut Steps,
    ) -> Deletion {
        let mut deletion = delete::decide(pool, observed, now);
        for reference in &deletion.objects {
            steps.check(act::delete_object(&self.core, pool, reference).await);
        }
        if !deletion.nodes.is_empty() {
            match act::delete_nodes(&self.core, pool, &deletion.nodes, "its MachinePool is deleted").await {
                Ok(()) => deletion = Deletion::done(),
                Err(problem) => steps.check(Err(problem)),
            }
        }
        steps.add(Ok(deletion.next));
        deletion
    }

    async fn publish_nodes(&self, before: &MachinePool, after: &MachinePool) {
        let (before, names) = (nodes::names(before), nodes::names(after));
        if !names.is_empty() && before != names {
            let message = listed(&names, NAMES);
            self.core.publish_event(after, Tone::Normal, events::NODE_REFS, &message).await;
        }
    }
}
