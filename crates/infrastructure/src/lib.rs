//! The infrastructure provider: HostPool, HostRegistration, Host, HostCluster, HostMachine and HostMachineTemplate.
//!
//! This crate decides which host a machine gets, when the host is started with the bootstrap data, and how it is
//! released, and it reports the progress. A host is reached through a [`HostDriver`], which comes from the [`Drivers`]
//! of the controllers. A [`Provisioner`] creates the machines of pools.
//!
//! This crate must not contain ways to reach hosts (drivers do), knowledge about the content of bootstrap data or
//! plans, or other providers.
//!
//! Each controller is a folder with the same files: `mod` documents what it reads and writes and runs its phases,
//! `triggers` has its events, `observe` reads, `decide` and `status` are pure, `act` writes. Long files are split into
//! a folder of their name.

mod context;
pub mod driver;
pub mod host;
pub mod host_token;
pub mod hostcluster;
pub mod hostmachine;
pub mod hostmachinetemplate;
pub mod hostpool;
pub mod hostregistration;
pub mod names;
mod news;
pub mod provisioner;
mod ready;
mod retry;
mod selector;
mod time_limit;

pub use context::{Clock, Infrastructure, controllers};
pub use driver::{
    BootstrapData, BootstrapFailure, BootstrapState, DriverError, Drivers, FollowState, HandOver, HostDriver,
    HostKind, Reached, ResetState,
};
pub use provisioner::{LocalMachine, MachineState, PoolOfMachines, ProvisionError, Provisioner};
pub use time_limit::TimeLimited;
