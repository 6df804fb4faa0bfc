//! How machines are made for a pool: the seam between a HostPool that wants machines and what can make them.
//!
//! Who makes machines keeps what it made where they are. It may be asked again by a process that knows nothing of the
//! first question: a machine of that name that is there already is the machine that was asked for.

use futures::future::BoxFuture;

/// Who a machine is made for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOfMachines {
    /// Namespace of the HostPool.
    pub namespace: String,
    /// Name of the HostPool.
    pub name: String,
    /// Folder with the root file system that each machine gets a copy of.
    pub root_filesystem: String,
    /// Network bridge the machines are attached to.
    pub bridge: String,
}

/// How a machine fares that should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// It is being made, or boots.
    Starting,
    /// Its SSH server answers.
    Up(LocalMachine),
}

/// A machine that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalMachine {
    /// Where its SSH server is.
    pub address: String,
    /// On which port.
    pub port: u16,
    /// The keys it shows, as OpenSSH writes them. Known to whoever made it, so nobody has to trust the first one.
    pub host_keys: Vec<String>,
}

/// Why a machine cannot be made or taken away, for people. Tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProvisionError(pub String);

/// Makes machines on the machine Capstan runs on. Every call may be repeated, and returns soon: long work goes on
/// behind it.
pub trait Provisioner: Send + Sync + 'static {
    /// Sees that there is a machine of this name, that it runs, and that it lets `authorized_key` in as root.
    fn ensure<'a>(
        &'a self,
        pool: &'a PoolOfMachines,
        name: &'a str,
        authorized_key: &'a str,
    ) -> BoxFuture<'a, Result<MachineState, ProvisionError>>;

    /// Stops a machine and removes all there is of it. None of this name: nothing to do.
    fn remove<'a>(
        &'a self,
        pool: &'a PoolOfMachines,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ProvisionError>>;

    /// The names of all machines of a pool, also of those that are being made.
    fn list<'a>(&'a self, pool: &'a PoolOfMachines) -> BoxFuture<'a, Result<Vec<String>, ProvisionError>>;
}
