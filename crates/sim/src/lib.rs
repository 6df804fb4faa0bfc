//! Simulated hosts and workload clusters.
//!
//! A simulated host is a virtual machine model ([`vm`]): files with owners and modes, artifacts that are their digests,
//! units that run or do not. It runs bootstrap data as cloud-init would ([`cloudinit`]), and then an agent ([`agent`]):
//! the real plan engine, on the model instead of on Linux. What is not a step of a plan does not happen. Starting
//! k3s on a virtual machine makes it part of a simulated workload cluster ([`cluster`]), which is the embedded API
//! server behind the cluster's own certificates, with Nodes in it.
//!
//! Everything that must outlive the process lies in one folder, and is there when a call returns; a process that is
//! killed and started again on that folder goes on where it was.
//!
//! What is simulated and not real: the operating system and k3s. A simulated machine reaches the management plane over
//! the wire and enrols with its token as a real one does, so that it can do no more than a real one could.
//!
//! What must not live here: decisions about machines or clusters, and any special treatment that a real host would
//! not get.

pub mod agent;
pub mod cloudinit;
pub mod cluster;
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
