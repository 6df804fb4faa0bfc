//! ClusterResourceSet: applies manifests from ConfigMaps and Secrets to the clusters it selects.
//!
//! Reads: the ClusterResourceSet, the Clusters that it selects, its ConfigMaps and Secrets, and what was applied before.
//! Writes: owners of the ConfigMaps and Secrets, ClusterResourceSetBindings, objects of the workload clusters, and finalizer and status of the
//! ClusterResourceSet.
//! Phases: own the ConfigMaps and Secrets; for each cluster apply what must be applied, and record it; status. One that is being deleted is
//! removed from the records; what it has applied stays.

mod act;
mod content;
mod decide;
pub mod names;
mod observe;
mod status;
mod triggers;

use capstan_api::addons::{CLUSTER_RESOURCE_SET_FINALIZER, ClusterResourceSet};
use capstan_api::core::Cluster;
use capstan_controller::patch::Patcher;
use capstan_controller::{Error, Next, Reconciler, Result, finalizers, pause};
use kube::ResourceExt as _;
use std::sync::Arc;
use std::time::Duration;

use crate::Core;
use crate::step::Steps;
use decide::Progress;
use observe::Resource;

pub use triggers::run;

/// A cluster that cannot be reached sends an event when it can; this is for the case that the event was missed.
const UNTIL_REACHABLE: Duration = Duration::from_secs(60);

/// Reconciles ClusterResourceSets.
pub struct ClusterResourceSetReconciler {
    core: Core,
}

impl ClusterResourceSetReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core }
    }
}

impl Reconciler for ClusterResourceSetReconciler {
    type Object = ClusterResourceSet;

    fn name(&self) -> &'static str {
        "clusterresourceset"
    }

    async fn reconcile(&self, object: Arc<ClusterResourceSet>) -> Result<Next> {
        let core = &self.core;
        let api = core.api::<ClusterResourceSet>(&object.namespace().unwrap_or_default());
        let now = core.now();
        if finalizers::ensure(&api, object.as_ref(), CLUSTER_RESOURCE_SET_FINALIZER).await?
            || !pause::allows(&api, object.as_ref(), None, now).await?
        {
            return Ok(Next::Changed);
        }
        let mut updated = object.as_ref().clone();
        if object.metadata.deletion_timestamp.is_some() {
            self.forget(&object).await?;
            finalizers::remove(&mut updated.metadata, CLUSTER_RESOURCE_SET_FINALIZER);
            Patcher::new(api, object.as_ref()).finish(&updated, &[]).await?;
            return Ok(Next::Changed);
        }
        let mut steps = Steps::new();
        let mut progress = Progress::default();
        if let Some(clusters) = steps.take(observe::clusters(core, &object).await)
            && let Some(resources) = steps.take(observe::resources(core, &object).await)
        {
            for resource in &resources {
                steps.check(act::own(core, &object, resource).await);
                progress.resource(resource);
            }
            for cluster in &clusters {
                let applied = self.apply(&object, cluster, &resources, &mut progress).await;
                steps.add(applied);
            }
        }
        status::update(&mut updated, &progress, steps.succeeded(), now);
        if steps.succeeded() {
            updated.status.get_or_insert_default().observed_generation = object.metadata.generation;
        }
        pause::lifted(&mut updated, now);
        steps.check(Patcher::new(api, object.as_ref()).finish(&updated, &status::OWNED).await);
        steps.end()
    }
}

impl ClusterResourceSetReconciler {
    /// Applies to one cluster what must be applied, and records it.
    async fn apply(
        &self,
        set: &ClusterResourceSet,
        cluster: &Cluster,
        resources: &[Resource],
        progress: &mut Progress,
    ) -> Result<Next> {
        let core = &self.core;
        let before = act::binding(core, set, cluster).await?;
        let mut after = before.clone();
        decide::own(&mut after, set);
        let pending = decide::pending(&after, set, resources);
        let mut outcome = Ok(Next::Changed);
        if !pending.is_empty() {
            let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
            match core.remotes.client(&namespace, &name).await? {
                Some(client) => {
                    for (resource, content) in pending {
                        let applied = act::apply(&client, set, resource, content).await;
                        let is_complete = applied.problems.is_empty();
                        decide::record(&mut after, set, resource, content, is_complete, core.now());
                        progress.applied(&name, applied.problems);
                        if !is_complete {
                            outcome = Err(incomplete(set, &name));
                        }
                        if applied.is_interrupted {
                            break;
                        }
                    }
                }
                None => {
                    progress.unreachable(&name);
                    outcome = Ok(Next::After(UNTIL_REACHABLE));
                }
            }
        }
        act::write_binding(core, &before, &after).await?;
        outcome
    }

    /// Takes a ClusterResourceSet out of all records. A record without any is deleted.
    async fn forget(&self, set: &ClusterResourceSet) -> Result<()> {
        for before in observe::bindings_of(&self.core, set).await? {
            let mut after = before.as_ref().clone();
            decide::forget(&mut after, set);
            act::write_binding(&self.core, &before, &after).await?;
        }
        Ok(())
    }
}

/// Makes the reconcile fail, so that it is retried with backoff: no event says that the API server would accept an object now, such as
/// one whose kind is served a moment after its CRD was created. The condition names the objects.
fn incomplete(set: &ClusterResourceSet, cluster: &str) -> Error {
    let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
    Error::transient(
        format!("cannot apply ClusterResourceSet {namespace}/{name} to Cluster {cluster}"),
        "not all objects were accepted; the condition ResourcesApplied names them",
    )
}
