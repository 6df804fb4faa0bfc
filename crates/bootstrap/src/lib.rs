//! The bootstrap provider: gives each machine its identity, writes its bootstrap Secret, and lets its agent enrol.
//!
//! The bootstrap data installs only the agent. It contains an address, a pinned CA, a one-time token, the identity of
//! the machine, and the key that verifies its plans. Everything else reaches the machine as a plan, so the bootstrap
//! data never becomes outdated, except for its token, which is replaced until the machine has used it.
//!
//! The agent of a machine whose objects were moved to this plane is handed over through the same Secret: see
//! [`hand_over`](capstan_controller::plane::hand_over).
//!
//! This crate must not decide what is on a machine: the planner does.
//!
//! Each controller is a folder with the same files: `mod` documents what it reads and writes and runs its phases,
//! `triggers` has its events, `observe` reads, `decide` and `status` are pure, `act` writes.

mod capstanconfig;
mod contact;
mod enrolment;
mod names;
mod this_plane;
mod userdata;

use capstan_artifacts::Software;
use capstan_controller::{Caches, Scope, run};
use futures::stream::select;
use std::future::Future;
use std::sync::Arc;

pub use capstanconfig::Bootstrap;
use capstanconfig::triggers;
pub use userdata::{AGENT_CONFIG_PATH, AGENT_PATH, INSTALL_PATH};

/// The address of the management plane, as reachable from machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneAddress {
    /// URL of the API server, as reachable from machines.
    pub server: String,
    /// CA bundle for the serving certificate, in PEM.
    pub ca: Vec<u8>,
}

/// Runs the controller until `stop` completes, for the objects in `scope`. Machines download the agent from the
/// sources in `software`.
pub async fn run(
    caches: Caches,
    plane: PlaneAddress,
    software: Software,
    scope: Scope,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let heard = Arc::new(contact::Heard::default());
    let woken =
        select(triggers::configs(&caches, &scope), contact::triggers::configs(&caches, &scope, &heard));
    let configs = caches.of();
    let caches = caches.written_as("capstan-bootstrap");
    let bootstrap = Bootstrap::new(caches, plane, software).hearing(heard);
    run::run(bootstrap, configs, scope, woken, stop).await;
}
