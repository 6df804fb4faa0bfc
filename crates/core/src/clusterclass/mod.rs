//! ClusterClass: owns the templates of a class, and publishes its variables.
//!
//! Reads: the ClusterClass, the templates that it refers to, and their CRDs.
//! Writes: owners of the templates, and the status of the ClusterClass.
//! Phases: observe the templates, own them, collect the variables, status.

mod act;
mod decide;
pub mod names;
mod observe;
mod status;
mod triggers;

use capstan_api::core::ClusterClass;
use capstan_controller::patch::Patcher;
use capstan_controller::{Next, Reconciler, Result, pause};
use kube::ResourceExt as _;
use std::sync::Arc;

use crate::Core;
use crate::step::Steps;

pub(crate) use observe::template;
pub use triggers::run;

/// Reconciles ClusterClasses.
pub struct ClusterClassReconciler {
    core: Core,
}

impl ClusterClassReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core }
    }
}

impl Reconciler for ClusterClassReconciler {
    type Object = ClusterClass;

    fn name(&self) -> &'static str {
        "clusterclass"
    }

    async fn reconcile(&self, object: Arc<ClusterClass>) -> Result<Next> {
        let core = &self.core;
        let api = core.api::<ClusterClass>(&object.namespace().unwrap_or_default());
        let now = core.now();
        if object.metadata.deletion_timestamp.is_some()
            || !pause::allows(&api, object.as_ref(), None, now).await?
        {
            return Ok(Next::Changed);
        }

        let mut steps = Steps::new();
        let mut outdated = Some(Vec::new());
        for reference in decide::references(&object) {
            match self.template(&object, reference).await {
                Ok(found) => {
                    if let Some(all) = &mut outdated {
                        all.extend(found);
                    }
                }
                Err(problem) => {
                    outdated = None;
                    steps.check(Err(problem));
                }
            }
        }
        let variables = decide::variables(&object);
        if let Err(problem) = &variables {
            steps.check(Err(problem.error(&object)));
        }

        let mut updated = object.as_ref().clone();
        status::update(&mut updated, outdated.as_deref(), variables, now);
        if steps.succeeded() {
            updated.status.get_or_insert_default().observed_generation = object.metadata.generation;
        }
        pause::lifted(&mut updated, now);
        steps.check(Patcher::new(api, object.as_ref()).finish(&updated, &status::OWNED).await);
        steps.end()
    }
}

impl ClusterClassReconciler {
    /// Owns a template. Gives the reference if there is a newer version of its kind.
    async fn template(
        &self,
        class: &ClusterClass,
        reference: &capstan_api::core::ClusterClassTemplateReference,
    ) -> Result<Option<decide::Outdated>> {
        let found = template(&self.core, class, reference).await?;
        act::own(&self.core, class, reference, &found).await?;
        let latest = observe::latest(&self.core, reference).await?;
        Ok(decide::outdated(reference, &latest))
    }
}
