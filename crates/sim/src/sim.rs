//! The simulation: all hosts and clusters in one folder.

use capstan_api::infrastructure::Host;
use capstan_infrastructure::DriverError;
use capstan_infrastructure::driver::HostKey;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, broadcast};

use crate::cluster::Clusters;
use crate::connections::Connections;
use crate::driver::answer;
use crate::host::{SimHost, remove};
use crate::vm::Vm;
use crate::vm::state::{K3sRole, Latency};

/// How many changes may be on their way to a slow listener, who then looks for himself.
const CHANGES_IN_FLIGHT: usize = 1024;

/// Why the simulation could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the folder locked.
    #[error("the simulation in {0} is in use by another process")]
    InUse(PathBuf),
    /// The folder could not be read or written.
    #[error("cannot open the simulation in {folder}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
}

/// Simulated hosts and clusters. Cheap to clone.
///
/// Tasks run until [`Sim::close`], or until the last clone is dropped, which aborts them as a crash would.
#[derive(Clone)]
pub struct Sim(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    host: String,
    // Before the clusters, so that nobody works on them when they go.
    hosts: Mutex<BTreeMap<HostKey, Arc<SimHost>>>,
    clusters: Clusters,
    connections: Connections,
    changes: broadcast::Sender<HostKey>,
    lock: File,
    is_closed: AtomicBool,
}

impl Sim {
    /// Opens the simulation in `folder`, creates the folder if it is missing, and continues where the simulation
    /// stopped. Its machines have a loopback address.
    ///
    /// # Errors
    /// If the folder cannot be read or written, or another process has it locked.
    pub async fn open(folder: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_at(folder, "127.0.0.1").await
    }

    /// Like [`Sim::open`], with machines that have the address or name `host` of this computer.
    ///
    /// # Errors
    /// If the folder cannot be read or written, or another process has it locked.
    pub async fn open_at(folder: impl AsRef<Path>, host: &str) -> Result<Self, OpenError> {
        let folder = folder.as_ref();
        // Under a name it may be reached by any of the addresses.
        let listen = host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let wrong = |source: io::Error| OpenError::Folder { folder: folder.to_owned(), source };
        fs::create_dir_all(folder.join("hosts")).map_err(wrong)?;
        let lock = File::create(folder.join("lock")).map_err(wrong)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::InUse(folder.to_owned()),
            TryLockError::Error(error) => wrong(error),
        })?;
        let clusters = Clusters::open(&folder.join("clusters"), listen).map_err(wrong)?;
        let (changes, _) = broadcast::channel(CHANGES_IN_FLIGHT);
        let inner = Inner {
            folder: folder.to_owned(),
            host: host.to_owned(),
            hosts: Mutex::default(),
            clusters,
            connections: Connections::default(),
            changes,
            lock,
            is_closed: AtomicBool::new(false),
        };
        let sim = Self(Arc::new(inner));
        sim.restore().await.map_err(wrong)?;
        Ok(sim)
    }

    /// Brings back what ran: API servers first, because agents ask them.
    async fn restore(&self) -> io::Result<()> {
        let mut hosts = self.0.hosts.lock().await;
        for namespace in folders(&self.0.folder.join("hosts"))? {
            for name in folders(&self.0.folder.join("hosts").join(&namespace))? {
                let key = (namespace.clone(), name);
                let host = self.make(&key)?;
                hosts.insert(key, host);
            }
        }
        for host in hosts.values() {
            let serves = |state: &crate::vm::state::State| {
                state
                    .membership()
                    .is_some_and(|membership| membership.kind == K3sRole::Server)
                    .then(|| state.clone())
            };
            if let Some(state) = host.vm.look(serves)
                && let Err(error) = self.0.clusters.restore(&state, host.vm.name()).await
            {
                tracing::warn!(host = host.vm.name(), %error, "its cluster cannot be served again");
            }
        }
        for host in hosts.values() {
            host.resume().await;
        }
        Ok(())
    }

    /// The address or name under which its machines are reached.
    pub(crate) fn address(&self) -> &str {
        &self.0.host
    }

    /// Stops all tasks in order. The simulated state stays on disk, and the simulation continues when the folder is
    /// opened again.
    pub async fn close(self) {
        self.0.is_closed.store(true, Ordering::Release);
        let hosts = std::mem::take(&mut *self.0.hosts.lock().await);
        for host in hosts.values() {
            host.stop().await;
        }
        self.0.clusters.close().await;
        // Who still has a clone only hears that it is closed. The lock goes with the last of them if this fails.
        let _ = self.0.lock.unlock();
    }

    /// The host behind an object, made if it is new, and set to what the object says.
    pub(crate) async fn reach(&self, host: &Host) -> Result<Arc<SimHost>, DriverError> {
        let fault = answer(host)?;
        let wanted = Latency::from(&host.spec.simulated.clone().unwrap_or_default());
        let key = key(host);
        let mut hosts = self.0.hosts.lock().await;
        if self.0.is_closed.load(Ordering::Acquire) {
            return Err(DriverError::Unreachable("the simulation is closed".to_owned()));
        }
        let found = match hosts.get(&key) {
            Some(found) => Arc::clone(found),
            None => {
                let made = self.make(&key).map_err(|error| unusable(&error))?;
                hosts.insert(key, Arc::clone(&made));
                made
            }
        };
        drop(hosts);
        found.vm.set_fault(fault);
        if found.vm.look(|state| state.latency) != wanted {
            found.vm.change(|state| state.latency = wanted).map_err(|error| unusable(&error))?;
        }
        Ok(found)
    }

    /// Removes a machine that nobody has.
    pub(crate) async fn drop_host(&self, host: &Host) -> Result<(), DriverError> {
        let key = key(host);
        let known = self.0.hosts.lock().await.get(&key).map(Arc::clone);
        if known.is_some_and(|known| known.vm.look(|state| state.life.is_some())) {
            // Nobody has it at this plane; but what was done to it was not undone, so somebody has it elsewhere.
            tracing::warn!(host = key.1, "a machine is on this host still: it stays");
            return Ok(());
        }
        let known = self.0.hosts.lock().await.remove(&key);
        if let Some(known) = known {
            known.stop().await;
            let off = known.machine.vanish().await;
            off.map_err(|error| DriverError::Unreachable(error.to_string()))?;
        }
        remove(&self.folder(&key)).map_err(|error| unusable(&error))
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<HostKey> {
        self.0.changes.subscribe()
    }

    fn make(&self, key: &HostKey) -> io::Result<Arc<SimHost>> {
        let inner = &self.0;
        let vm = Vm::open(&self.folder(key), &key.1)?.sharing(inner.connections.clone());
        Ok(SimHost::new(key.clone(), vm, inner.clusters.clone(), inner.changes.clone()))
    }

    fn folder(&self, (namespace, name): &HostKey) -> PathBuf {
        self.0.folder.join("hosts").join(namespace).join(name)
    }
}

fn key(host: &Host) -> HostKey {
    (host.namespace().unwrap_or_default(), host.name_any())
}

fn unusable(error: &io::Error) -> DriverError {
    DriverError::Unreachable(format!("the simulated machine cannot be read or written: {error}"))
}

/// Names of the folders in a folder.
fn folders(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
