//! The bootstrap provider: gives each machine its identity, makes the Secret it starts with, and lets it enrol.
//!
//! What a machine starts with installs nothing but the agent: an address, a pinned CA, a one-time token, who it is
//! and whose plans it obeys. Everything else reaches it as a plan, so nothing in a CapstanConfig can be too late, and
//! the data never has to be made again, except for its token, which is replaced for as long as it has not been used.
//!
//! A machine whose agent obeys another plane, because its objects were moved here, is told of this one through the same
//! Secret: see [`hand_over`](capstan_controller::plane::hand_over).
//!
//! What must not live here: what a machine should become. That is the planner's.
//!
//! Each controller is a folder with the same files: `mod` says what it reads and writes and runs its phases, `triggers` says
//! what wakes it, `observe` reads, `decide` and `status` are pure, `act` writes.

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

/// How machines reach the management plane.
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
