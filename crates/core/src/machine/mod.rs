//! Machine: bootstrap data, infrastructure, Node, and deletion.
//!
//! Reads: the Machine, its Cluster, the MachineSet and MachineDeployment above it, the two objects it refers to, its
//! Node, and the answer of an extension about its update.
//! Writes: owners and label of the two objects, deletions, labels, annotations and taints of the Node, the marks of an
//! update, and of the Machine finalizer, owner, label, the fields that providers fill in, and status.
//! Phases: observe, own the two objects, take over from the providers, find and write the Node, update in place,
//! delete, status.

mod act;
mod decide;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

use capstan_api::conditions::types as shared;
use capstan_api::core::Machine;
use capstan_controller::events::Tone;
use capstan_controller::patch::Patcher;
use capstan_controller::{Next, Reconciler, Result, finalizers, pause};
use kube::ResourceExt as _;
use std::sync::Arc;

use crate::Core;
use crate::names::events;
use crate::names::machine::{FINALIZER, types};
use crate::step::Steps;
use decide::{node, ownership, provision};

pub use triggers::run;

/// Reconciles Machines.
pub struct MachineReconciler {
    core: Core,
    /// Calls of the update hook.
    calls: act::Pauses,
    /// Drains, and looks at volumes.
    looks: act::Pauses,
    /// Deletions of Nodes that fail.
    failures: act::FirstFailures,
}

impl MachineReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        let (calls, looks) = (act::Pauses::default(), act::Pauses::default());
        Self { core, calls, looks, failures: act::FirstFailures::default() }
    }
}

impl Reconciler for MachineReconciler {
    type Object = Machine;

    fn name(&self) -> &'static str {
        "machine"
    }

    fn summaries(&self) -> &'static [&'static str] {
        // Infrastructure providers wait for `spec.bootstrap.dataSecretName`.
        &["initialization.bootstrapDataSecretCreated", shared::BOOTSTRAP_CONFIG_READY]
    }

    async fn reconcile(&self, object: Arc<Machine>) -> Result<Next> {
        let core = &self.core;
        let api = core.api::<Machine>(&object.namespace().unwrap_or_default());
        let now = core.now();
        let cluster = observe::cluster(core, &object).await?;
        if finalizers::ensure(&api, &object, FINALIZER).await?
            || !pause::allows(&api, object.as_ref(), Some(&cluster), now).await?
        {
            return Ok(Next::Changed);
        }

        let mut steps = Steps::new();
        let mut before = object.as_ref().clone();
        let mut machine = before.clone();
        let mut observed = observe::observe(core, &machine, cluster, &mut steps).await?;
        ownership::set_owner_and_label(&mut machine, &observed.cluster);
        steps.check(self.claim(&machine, &observed).await);
        steps.add(provision::bootstrap(&mut machine, &observed.bootstrap));
        steps.add(provision::infrastructure(&mut machine, &observed.infrastructure));
        let found = observe::node(core, &machine, &observed, &mut steps).await;
        node::refer(&mut machine, &found);
        steps.check(act::node::write(core, &machine, &observed, &found).await);
        steps.add(provision::certificates(&mut machine, &observed.bootstrap));

        let (next, progress) = self.update(&mut before, &mut machine, &observed).await;
        steps.add(next);
        observed.update = progress;

        let mut deletion = None;
        if provision::deleting(&machine) {
            let (looks, failures) = (&self.looks, &self.failures);
            let mut advanced = act::delete::advance(core, looks, failures, &mut machine, &observed).await;
            steps.add(std::mem::replace(&mut advanced.result, Ok(Next::Changed)));
            if advanced.is_done {
                finalizers::remove(&mut machine.metadata, FINALIZER);
            }
            deletion = Some(advanced);
        }

        let next = status::update(&mut machine, &observed, &found, deletion.as_ref(), now);
        steps.add(Ok(next));
        if steps.succeeded() {
            machine.status.get_or_insert_default().observed_generation = machine.metadata.generation;
        }
        let mut owned = status::OWNED.to_vec();
        owned.extend(observed.deployment.is_some().then_some(types::UP_TO_DATE));
        pause::lifted(&mut machine, now);
        let had_node = node::name(&before).is_some();
        steps.check(Patcher::new(api, &before).finish(&machine, &owned).await);
        if let (false, Some(node)) = (had_node, node::name(&machine)) {
            core.publish_event(&machine, Tone::Normal, events::NODE_REF, node).await;
        }
        steps.end()
    }
}
