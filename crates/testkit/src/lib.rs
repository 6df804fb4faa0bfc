//! Real programs for tests: a management plane of etcd, kube-apiserver and kube-controller-manager, and
//! Cluster API's own managers, on loopback, started in seconds and gone with the test.
//!
//! What lives here: starting and stopping those programs ([`RealPlane`], [`EtcdCluster`], [`UpstreamManagers`]), their
//! certificates and ports, upstream's CRDs, `kubectl`, real machines with `ssh` ([`Machines`]), processes that die at a
//! certain write ([`crash`]), and waiting with a deadline ([`eventually`]). It is the only crate that knows upstream's programs and their flags.
//!
//! What must not live here: anything about Capstan's objects and controllers, and anything the product needs. Only
//! tests depend on this crate.
//!
//! Rules that hold everywhere in it: every port is a free one and every file lies in a temporary folder, so
//! that tests run side by side; every wait has a deadline and says what it last saw; whatever is started is
//! stopped when its value is dropped, also by a panic, and dies with the test process if that is killed.

pub mod crash;
mod crds;
mod durable;
mod etcd;
mod health;
mod kubeconfig;
mod kubectl;
mod machine_lock;
mod machines;
mod managers;
mod pki;
mod plane;
mod ports;
mod process;
mod wait;

pub use capstan_tools::CrdSet;
pub use crds::{install_crds, install_upstream_crds, upstream_crds};
pub use durable::DurablePlane;
pub use etcd::EtcdCluster;
pub use kubeconfig::client;
pub use kubectl::{Ran, kubectl};
pub use machines::{Machines, TestMachine};
pub use managers::{FeatureGates, Manager, ManagerWebhook, UpstreamManagers};
pub use plane::RealPlane;
pub use ports::free as free_ports;
pub use process::{spawn_from_lasting_thread, tied_to_this_process};
pub use wait::eventually;

/// Makes aws-lc-rs the process's TLS provider. Every start in this crate calls it; a test that opens a
/// client before that calls it itself.
pub fn install_crypto_provider() {
    // An error says that there is one already: installed by an earlier call.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
