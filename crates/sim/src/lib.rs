//! Simulated hosts and workload clusters.
//!
//! A simulated host is a virtual machine model ([`vm`]): files with owners and modes, artifacts reduced to their
//! digests, units that are active or not. It runs bootstrap data as cloud-init would ([`cloudinit`]), and then an agent
//! ([`agent`]): the real plan engine on the model instead of on Linux. Only steps of a plan change the machine after
//! that. When k3s is started on a virtual machine, the machine joins a simulated workload cluster ([`cluster`]): the
//! embedded API server with the cluster's own certificates, and Node objects.
//!
//! All persistent state is in one folder, and is on disk when a call returns. A process that is killed and started
//! again on that folder continues where it stopped.
//!
//! The operating system and k3s are simulated. The connection to the management plane is real: a simulated machine uses
//! the network and enrols with its token, so that it has no more rights than a real one.
//!
//! This crate must not contain decisions about machines or clusters, nor special treatment that a real host would not
//! get.

pub mod agent;
pub mod cloudinit;
pub mod cluster;
mod connections;
mod driver;
mod fault;
mod host;
mod reset;
mod sim;
mod task;
pub mod vm;

pub use cluster::SimulatedEtcd;
pub use driver::ADDRESS_ANNOTATION;
pub use fault::{FAULT_ANNOTATION, Fault};
pub use host::OS_IMAGE;
pub use sim::{OpenError, Sim};
