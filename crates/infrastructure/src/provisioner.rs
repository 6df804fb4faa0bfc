//! Provisioners: the interface between a HostPool that needs machines and the programs that create them.
//!
//! A provisioner stores its progress with the machines, not in this process. Another process may repeat a call: an
//! existing machine of the name is the requested one.

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
    /// Ensures that a machine of this name exists and runs, and that it accepts `authorized_key` for root.
    fn ensure<'a>(
        &'a self,
        pool: &'a PoolOfMachines,
        name: &'a str,
        authorized_key: &'a str,
    ) -> BoxFuture<'a, Result<MachineState, ProvisionError>>;

    /// Stops a machine and deletes all its files. Succeeds if it does not exist.
    fn remove<'a>(
        &'a self,
        pool: &'a PoolOfMachines,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ProvisionError>>;

    /// The names of all machines of a pool, with those that are being created.
    fn list<'a>(&'a self, pool: &'a PoolOfMachines) -> BoxFuture<'a, Result<Vec<String>, ProvisionError>>;
}
