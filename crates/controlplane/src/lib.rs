//! The control plane provider: certificates, the kubeconfig, the control plane's machines, and the plan of every
//! machine of the cluster.
//!
//! | room | what lives there |
//! |---|---|
//! | `certificates`, `kubeconfig` | what a cluster is made from, once |
//! | `machines` | Machine, CapstanConfig and infrastructure machine of each replica; one step at a time |
//! | `etcd` | the client of etcd |
//! | `healing` | silence of agents, and the request to replace a machine that nothing has cured |
//! | `planner` | who begins the cluster, which plan each machine should have, when it may have it, and when it may restart |
//! | `status`, `delete` | what the control plane says of itself, and its end |
//! | `foresee` | what a change would do, for `capstan plan`: the same decisions, on facts of the future |
//! | `observe`, `scope` | what decisions are made from: objects, turned into the facts of `capstan-planner` |
//! | `reconcile`, `round` | one reconcile and its phases |
//!
//! What must not live here: decisions that need no API object (`capstan-planner`), what a distribution needs (`capstan-distro`), how a plan is written (`capstan-plan`), and
//! any other provider. Their objects are made through the contract.
//!
//! Nothing essential is in status. Who begins the cluster, that it has begun, and which machine is being made stand in
//! annotations that are written by compare and swap.

#[cfg(feature = "bench")]
pub mod bench;
mod certificates;
mod delete;
mod doubt;
mod etcd;
pub mod foresee;
mod healing;
mod kubeconfig;
mod machines;
mod names;
mod observe;
mod planner;
mod reconcile;
mod round;
mod scope;
mod status;
mod triggers;
mod workload;

use capstan_controller::external::Externals;
use capstan_controller::remote::Remotes;
use capstan_controller::{Caches, Scope, run};
use std::future::Future;

pub use etcd::EtcdClient;
pub use planner::Spare;
pub use reconcile::{Ambient, ControlPlane, Tools};
pub use workload::{NodeView, NodesByName, Workload};

/// Runs the controller until `stop` is done, for what is in `scope`. `caches`, `externals` and `remotes` may be shared with other controllers.
pub async fn run(
    caches: Caches,
    externals: Externals,
    remotes: Remotes,
    tools: Tools,
    scope: Scope,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let woken = triggers::control_planes(&caches, &scope, &remotes);
    let (objects, caches) = (caches.of(), caches.written_as("capstan-controlplane"));
    let externals = externals.written_with(caches.client().clone());
    run::run(ControlPlane::new(caches, externals, remotes, tools), objects, scope, woken, stop).await;
}
