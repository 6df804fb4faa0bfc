//! MachineHealthCheck: finds unhealthy Machines, and asks for their remediation if few enough are unhealthy.
//!
//! Reads: the MachineHealthCheck, its Cluster, the Machines it selects and their Nodes.
//! Writes: `HealthCheckSucceeded` of those Machines, a first `OwnerRemediated` that asks their owner to act, requests
//! to an external remediation, and of the MachineHealthCheck owner, label and status.
//! Phases: read Machines and Nodes, judge each Machine, confirm findings about Nodes by a live read, judge the numbers,
//! write onto each Machine what was found, write the status.

mod act;
mod decide;
pub mod names;
mod observe;
mod status;
mod triggers;

use capstan_api::core::{Cluster, MachineHealthCheck};
use capstan_controller::patch::Patcher;
use capstan_controller::{Next, Reconciler, Result, pause};
use kube::ResourceExt as _;
use kube::api::Api;
use std::sync::Arc;

use crate::Core;
use crate::machineset::cluster_of;
use crate::step::Steps;
use decide::{Health, Target};

pub use decide::{health, node, trigger};
pub use triggers::run;

/// Reconciles MachineHealthChecks.
pub struct MachineHealthCheckReconciler {
    core: Core,
}

impl MachineHealthCheckReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core }
    }
}

impl Reconciler for MachineHealthCheckReconciler {
    type Object = MachineHealthCheck;

    fn name(&self) -> &'static str {
        "machinehealthcheck"
    }

    async fn reconcile(&self, object: Arc<MachineHealthCheck>) -> Result<Next> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MachineHealthCheck> = self.core.api(&namespace);
        let cluster = cluster_of(&self.core, &namespace, &object.spec.cluster_name).await?;
        if !pause::allows(&api, object.as_ref(), Some(&cluster), self.core.now()).await? {
            return Ok(Next::Changed);
        }
        let mut check = object.as_ref().clone();
        decide::claim(&mut check, &cluster);

        let mut steps = Steps::new();
        steps.add(self.check(&cluster, &mut check).await);
        if steps.succeeded() {
            check.status.get_or_insert_default().observed_generation = check.metadata.generation;
        }
        pause::lifted(&mut check, self.core.now());
        steps.check(Patcher::new(api, &object).finish(&check, &status::OWNED).await);
        steps.end()
    }
}

impl MachineHealthCheckReconciler {
    async fn check(&self, cluster: &Cluster, check: &mut MachineHealthCheck) -> Result<Next> {
        let targets = self.targets(cluster, check).await?;
        let judgement = decide::judge(check, &targets)?;
        let is_news = status::update(check, &targets, &judgement, self.core.now());
        self.publish_restricted(check, &judgement, is_news).await;

        let mut steps = Steps::new();
        for target in &targets {
            if let Health::Waiting(Some(after)) = target.health {
                steps.add(Ok(Next::After(after)));
            }
            steps.check(self.mark(cluster, check, target, judgement.is_allowed()).await);
        }
        steps.end()
    }

    async fn targets(&self, cluster: &Cluster, check: &MachineHealthCheck) -> Result<Vec<Target>> {
        let observed = observe::observe(&self.core, cluster, check).await?;
        let (mut targets, now) = (Vec::new(), self.core.now());
        for machine in observed.machines.into_iter().filter(|machine| !decide::is_skipped(machine)) {
            let mut target = decide::target(cluster, check, machine, observed.nodes.as_ref(), now);
            // A finding may cost a machine its life: the API server is asked once more, past all caches.
            if let Some(node) = target.node_to_confirm() {
                let read = observe::node_now(&self.core, check, node).await;
                target = decide::confirmed(cluster, check, target, read, now);
            }
            targets.push(target);
        }
        Ok(targets)
    }
}
