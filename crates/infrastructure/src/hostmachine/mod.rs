//! HostMachine: claims a host for a Machine, starts it with the Machine's bootstrap data, and gives it back clean.

mod act;
mod claim;
mod decide;
mod release;
mod tell;
#[cfg(test)]
mod tests;
mod triggers;

pub use claim::{Obstacle, Wanted, choose};
pub use decide::{Observed, Step, decide, provider_id};
pub use release::Release;

use capstan_api::core::Machine;
use capstan_api::infrastructure::HostMachine;
use capstan_api::meta::labels;
use kube::ResourceExt as _;
use std::time::Instant;

use crate::context::Infrastructure;
use act::Machines;

/// Runs the controller until `stop` is done.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = triggers::all(&infrastructure);
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    let machines = Machines { infrastructure, started: Instant::now() };
    capstan_controller::run::run(machines, cache, scope, also, stop).await;
}

fn cluster_name(machine: &HostMachine, owner: Option<&Machine>) -> Option<String> {
    owner
        .map(|owner| owner.spec.cluster_name.clone())
        .or_else(|| machine.labels().get(labels::CLUSTER_NAME).cloned())
}
