//! Machines on this machine: systemd-nspawn with a systemd, an SSH server and a cloud-init of their own, on a
//! private network, made in a second and booted in a few.
//!
//! A [`Machine`] belongs to a [`Set`]: a folder, a bridge and an owner. Its address, its name and its SSH host
//! key are chosen before it boots, so that whoever reaches it knows whom to expect. It keeps its disk and its
//! address over reboots and power cuts. A set that a process owns ends with that process; one that lasts is found
//! again in its folder.
//!
//! Everything is ordinary: `ip`, `systemd-nspawn`, cgroups. There need not be a systemd on this machine, and both
//! versions of cgroups will do. What is missing is named together with its remedy ([`check`]).
//!
//! What must not live here: Kubernetes, plans, how a root file system is made.

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
pub use set::{Set, cleanup};
pub use subnet::Subnet;
