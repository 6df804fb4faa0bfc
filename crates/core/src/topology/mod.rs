//! Topology: makes a Cluster from its ClusterClass, and keeps it as `spec.topology` says.
//!
//! Reads: the Cluster, its ClusterClass with the templates, and all that was made from them; Machines, and the Nodes of
//! MachinePools.
//! Writes: the infrastructure cluster, the control plane with the template of its machines, MachineDeployments with their templates, MachinePools with
//! what they refer to, MachineHealthChecks; the two references of the Cluster, and its condition `TopologyReconciled`.
//! Phases: wait for the class, defaults and validation, observe, compute, write in the order of an upgrade, status. A Cluster
//! that is being deleted is left to the other controllers.
//!
//! What was not read is unknown, and then nothing is written: an object that only seems to be absent would be created again.
//! Hooks of runtime extensions are not called (`decide::hooks`).

mod act;
mod class_facts;
mod decide;
mod names;
mod observe;
mod status;
mod triggers;

use capstan_api::core::{Cluster, ClusterClass};
use capstan_controller::apply::Applier;
use capstan_controller::error::chain;
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::{Error, Next, Reconciler, Result, pause};
use capstan_topology::desired::Computed;
use capstan_topology::intent::FIELD_MANAGER;
use kube::ResourceExt as _;
use std::sync::Arc;

use crate::Core;
use act::Writer;
use class_facts::ClassFacts;
use status::Outcome;

pub use triggers::run;

/// Reconciles the topologies of Clusters.
pub struct TopologyReconciler {
    core: Core,
    applier: Applier,
    facts: ClassFacts,
}

impl TopologyReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core, applier: Applier::new(FIELD_MANAGER), facts: ClassFacts::default() }
    }
}

impl Reconciler for TopologyReconciler {
    type Object = Cluster;

    fn name(&self) -> &'static str {
        "clustertopology"
    }

    fn limits(&self) -> Limits {
        Limits::summing_up()
    }

    async fn reconcile(&self, object: Arc<Cluster>) -> Result<Next> {
        if object.spec.topology.is_none() {
            return Ok(Next::Changed);
        }
        let (core, now) = (&self.core, self.core.now());
        let mut latest = object.as_ref().clone();
        let outcome = match pause::reason(Some(&object), "Cluster", &object.metadata) {
            Some(why) => Outcome::Paused(why),
            None if object.metadata.deletion_timestamp.is_some() => Outcome::Deleting,
            None => Box::pin(self.look(&object, &mut latest)).await,
        };
        let mut updated = latest.clone();
        status::update(&mut updated, &outcome, now);
        let api = core.api::<Cluster>(&object.namespace().unwrap_or_default());
        let written = Patcher::new(api, &latest).finish(&updated, &status::OWNED).await;
        match outcome {
            Outcome::Failed(error) => Err(error),
            _ => written.map(|()| Next::Changed),
        }
    }
}

impl TopologyReconciler {
    /// One look at the topology. `latest` becomes the Cluster as it was written.
    async fn look(&self, cluster: &Cluster, latest: &mut Cluster) -> Outcome {
        let class = match observe::class(&self.core, cluster).await {
            Ok(class) => class,
            Err(error) => return Outcome::Failed(error),
        };
        if let Err(why) = decide::is_reconciled(&class) {
            return Outcome::ClassNotReconciled(why);
        }
        match Box::pin(self.reconcile_with(cluster, &class, latest)).await {
            Ok(computed) => Outcome::Reconciled(Box::new(computed)),
            Err(error) => Outcome::Failed(error),
        }
    }

    async fn reconcile_with(
        &self,
        cluster: &Cluster,
        class: &ClusterClass,
        latest: &mut Cluster,
    ) -> Result<Computed> {
        let facts = self.facts.of(class);
        let defaulted = decide::prepare(cluster, class, &facts)?;
        let templates = observe::templates(&self.core, class).await?;
        let objects = observe::objects(&self.core, &defaulted, &templates).await?;
        let contract = observe::contract(&self.core, &templates).await?;
        let computed = decide::compute(&defaulted, class, &templates, &objects, contract)?;
        let mut writer = Writer::new(&self.core, &self.applier, cluster, &objects, computed);
        let written = Box::pin(writer.write(latest)).await;
        match written {
            Ok(()) => Ok(writer.computed),
            // A new object has another name at each try. The condition must not change with it.
            Err(error) => Err(without_names(error, &writer.tried)),
        }
    }
}

/// An error whose text does not name these objects.
fn without_names(error: Error, names: &[String]) -> Error {
    let text = chain(&error);
    if !names.iter().any(|name| text.contains(name.as_str())) {
        return error;
    }
    let text = names.iter().fold(text, |text, name| text.replace(name.as_str(), "(new)"));
    Error::transient("cannot create the objects of the topology", text)
}
