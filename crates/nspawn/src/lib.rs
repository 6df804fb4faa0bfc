//! Local machines: systemd-nspawn containers with their own systemd, SSH server and cloud-init, on a private network. A
//! machine is created in about a second and boots in a few.
//!
//! A [`Machine`] belongs to a [`Set`]: a folder, a bridge and an owner. Its address, its name and its SSH host key are
//! chosen before it boots, so that SSH clients can pin the host key. It keeps its disk and its address across reboots
//! and power cuts. A set that a process owns ends with that process; a lasting set can be opened again from its folder.
//!
//! The implementation uses `ip`, `systemd-nspawn` and cgroups. This computer need not run systemd, and both cgroup
//! versions are supported. [`check`] names everything that is missing, with its remedy.
//!
//! This crate must not contain: Kubernetes, plans, the creation of a root file system.

mod cgroup;
mod command;
mod disk;
mod error;
mod files;
mod launch;
mod machine;
mod network;
mod record;
mod requirements;
mod set;
mod subnet;
mod traces;

pub use disk::MachineSpec;
pub use error::{Error, Result};
pub use files::Seed;
pub use machine::Machine;
pub use network::Network;
pub use requirements::{Missing, check};
pub use set::{Set, remove_leftover_sets};
pub use subnet::Subnet;
