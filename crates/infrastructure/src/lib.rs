//! The infrastructure provider: HostPool, Host, HostCluster, HostMachine and HostMachineTemplate.
//!
//! What lives here: which host a machine gets, when it is started with the machine's bootstrap data, how it is given
//! back, and what users are told meanwhile. A host is reached through [`HostDriver`]; which one, is said by the
//! [`Drivers`] the controllers are given. Where a pool makes its machines, a [`Provisioner`] does.
//!
//! What must not: how a certain sort of host is reached (that is a driver's), knowledge of what bootstrap data or
//! plans contain, other providers.
//!
//! Each controller is a folder with the same files: `mod` says what it reads and writes and runs its phases, `triggers` says
//! what wakes it, `observe` reads, `decide` and `status` are pure, `act` writes. What is too long for one of these files is
//! in a folder of its name.

mod context;
pub mod driver;
pub mod host;
pub mod hostcluster;
pub mod hostmachine;
pub mod hostmachinetemplate;
pub mod hostpool;
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
