//! The control plane provider: certificates, the kubeconfig, the control plane's machines, and the plan of every
//! machine of the cluster.
//!
//! | room | what lives there |
//! |---|---|
//! | `certificates`, `kubeconfig` | what a cluster is made from, once |
//! | `machines` | Machine, CapstanConfig and infrastructure machine of each replica; one step at a time |
//! | `etcd` | who is a member, and what the members can bear |
//! | `planner` | who begins the cluster, which plan each machine should have, when it may have it, and when it may restart |
//! | `status`, `delete` | what the control plane says of itself, and its end |
//! | `foresee` | what a change would do, for `capstan plan`: the same decisions, on facts of the future |
//! | `facts`, `observe`, `scope` | what decisions are made from |
//! | `reconcile`, `round` | one reconcile and its phases |
//!
//! What must not live here: what a distribution needs (`capstan-distro`), how a plan is written (`capstan-plan`), and
//! any other provider. Their objects are made through the contract.
//!
//! Nothing essential is in status. Who begins the cluster, that it has begun, and which machine is being made stand in
//! annotations that are written by compare and swap.

mod certificates;
mod delete;
mod etcd;
mod facts;
pub mod foresee;
mod kubeconfig;
mod machines;
mod names;
mod observe;
mod planner;
mod reconcile;
mod round;
mod scope;
mod status;
mod wake;
mod workload;

use capstan_api::controlplane::CapstanControlPlane;
use capstan_controller::external::Externals;
use capstan_controller::remote::Remotes;
use capstan_controller::run;
use kube::Client;
use kube::api::Api;
use std::future::Future;

pub use etcd::EtcdClient;
pub use planner::Spare;
pub use reconcile::{Ambient, ControlPlane, Tools};
pub use workload::Workload;

/// Runs the controller until `stop` is done. `externals` and `remotes` may be shared with other controllers.
pub async fn run(
    client: Client,
    externals: Externals,
    remotes: Remotes,
    tools: Tools,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let objects: Api<CapstanControlPlane> = Api::all(client.clone());
    let woken = wake::control_planes(&client, &remotes);
    run::run(ControlPlane::new(client, externals, remotes, tools), objects, woken, stop).await;
}
