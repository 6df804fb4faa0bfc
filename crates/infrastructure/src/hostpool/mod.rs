//! HostPool: creates its Hosts, and their machines.
//!
//! Simulated hosts and nspawn machines are created by number, listed hosts by name. Claimed hosts are never deleted.
//! The Host of an nspawn machine is created once the machine can be reached; the machine is deleted after its Host.
//!
//! Reads: the HostPool, the Hosts and the Clusters of its namespace, and the Secret with the key of its machines.
//! Writes: finalizer and status of the HostPool; Hosts, as far as the pool determines them; the machines; and Events.
//!
//! Phases: pause, finalizer, a guard against moves ([`move_guard`]); then plan, machines, Hosts, status.

mod act;
mod decide;
mod move_guard;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

pub use decide::machines::PUBLIC_KEY;
pub(crate) use decide::machines::of_pool;
pub use decide::{Plan, decide};
pub use status::count;

use capstan_api::infrastructure::HostPool;
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::{Next, Reconciler, Result, finalizers, pause, run};
use kube::ResourceExt as _;
use std::sync::Arc;
use std::time::Instant;

use crate::context::Infrastructure;
use crate::names::hostpool::FINALIZER;
use move_guard::MoveGuard;

struct Pools(Infrastructure, MoveGuard);

/// Runs the controller until `stop` completes.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = triggers::all(&infrastructure);
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    run::run(Pools(infrastructure, MoveGuard::default()), cache, scope, also, stop).await;
}

impl Reconciler for Pools {
    type Object = HostPool;

    fn name(&self) -> &'static str {
        "hostpool"
    }

    fn limits(&self) -> Limits {
        Limits::summing_up()
    }

    fn summaries(&self) -> &'static [&'static str] {
        &["availableReplicas", "claimedReplicas", "quarantinedReplicas"]
    }

    async fn reconcile(&self, pool: Arc<HostPool>) -> Result<Next> {
        let Self(infrastructure, move_guard) = self;
        let namespace = pool.namespace().unwrap_or_default();
        let api = infrastructure.api::<HostPool>(&namespace);
        let makes_machines = of_pool(&pool).is_some();
        let is_going = pool.metadata.deletion_timestamp.is_some();
        if !pause::allows(&api, &*pool, None, infrastructure.now()).await?
            // Hosts go by their owner references, each when no machine has it; but who made machines takes them away.
            || is_going && !makes_machines
            || makes_machines && finalizers::ensure(&api, &*pool, FINALIZER).await?
        {
            return Ok(Next::Changed);
        }
        let clusters = observe::clusters(infrastructure, &namespace).await?;
        if move_guard.holds(&pool.uid().unwrap_or_default(), clusters, Instant::now()) {
            return Ok(Next::After(decide::AFTER_FAILURE));
        }
        let mut hosts = observe::hosts(infrastructure, &namespace).await?;
        let mut plan = decide(&pool, &hosts);
        // What is in memory may be a moment old: no Host is made or deleted on it, nor a machine removed as an orphan.
        if makes_machines || plan.makes_or_deletes() {
            hosts = observe::hosts_now(infrastructure, &namespace).await?;
            plan = decide(&pool, &hosts);
        }
        let progress = act::machines::ensure(infrastructure, &pool, &hosts, &mut plan).await?;
        let created = act::hosts(infrastructure, &namespace, &plan).await?;
        infrastructure.report(&*pool, status::news(&created, &plan.delete)).await;

        let mut updated = (*pool).clone();
        status::write_status(&mut updated, &hosts, &plan, &progress, infrastructure.now());
        if decide::may_go(&pool, &hosts, &progress) {
            finalizers::remove(&mut updated.metadata, FINALIZER);
        }
        pause::lifted(&mut updated, infrastructure.now());
        Patcher::new(api, &*pool).finish(&updated, &status::OWNED).await?;
        Ok(Next::After(decide::again(&progress)))
    }
}
