//! How machines are made for a pool: the seam between a HostPool that wants machines and what can make them.
//!
//! Who makes machines keeps what it made where they are. It may be asked again by a process that knows nothing of the
//! first question: a machine of that name that is there already is the machine that was asked for.

use futures::future::BoxFuture;

/// The HostPool that machines are created for, and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOfMachines {
    /// Namespace of the HostPool.
    pub namespace: String,
    /// Name of the HostPool.
    pub name: String,
    /// Folder with the root file system that is copied for each machine.
    pub root_filesystem: String,
    /// Network bridge of the machines.
    pub bridge: String,
}

/// The state of a machine that should exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// It is being created, or boots.
    Starting,
    /// Its SSH server responds.
    Up(LocalMachine),
}

/// A machine that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalMachine {
    /// Address of its SSH server.
    pub address: String,
    /// Port of its SSH server.
    pub port: u16,
    /// Its SSH host keys, in OpenSSH format. The provisioner knows them, so that no key must be trusted on first use.
    pub host_keys: Vec<String>,
}

/// Why a machine cannot be created or deleted, for users. Retried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProvisionError(pub String);

/// Creates machines on the machine that Capstan runs on. Calls are idempotent and return soon; long operations
/// continue in the background.
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
