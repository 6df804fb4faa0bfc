//! Real programs for tests: a management plane of etcd, kube-apiserver and kube-controller-manager, and Cluster API's
//! own managers, on loopback. They start in seconds and end with the test.
//!
//! This crate contains: starting and stopping those programs ([`RealPlane`], [`EtcdCluster`], [`UpstreamManagers`]),
//! their certificates and ports, upstream's CRDs, `kubectl`, real machines with `ssh` ([`Machines`]), processes that
//! crash at a given write ([`crash`]), and waiting with a deadline ([`eventually`]). No other crate knows upstream's
//! programs and their flags.
//!
//! It must not contain: Capstan's objects and controllers, and anything that the product needs. Only tests depend on
//! this crate.
//!
//! Rules for the whole crate: every port is a free one and every file is in a temporary folder, so that tests can run
//! in parallel; every wait has a deadline and reports what it saw last; every program is stopped when its value is
//! dropped, also by a panic, and is killed if the test process is killed.

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

/// Makes aws-lc-rs the process's TLS provider. Every start function in this crate calls it. A test that creates a
/// client earlier must call it itself.
pub fn install_crypto_provider() {
    // An error says that there is one already: installed by an earlier call.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
