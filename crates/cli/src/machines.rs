//! Machines for pools, made on this machine with systemd-nspawn.

use capstan_infrastructure::{LocalMachine, MachineState, PoolOfMachines, ProvisionError, Provisioner};
use capstan_nspawn::{Machine, MachineSpec, Set};
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long a machine may take from its start until its SSH server answers.
const BOOT: Duration = Duration::from_secs(120);

/// Machines that are being booted, by the folder of their pool and their name.
type Boots = HashMap<(PathBuf, String), JoinHandle<Result<(), String>>>;

/// Makes machines that outlive this process, or those of one set that ends with it.
pub(crate) struct LocalMachines {
    home: Home,
    boots: Mutex<Boots>,
}

enum Home {
    /// A folder for every pool, found again after a restart.
    Folder(PathBuf),
    /// One set for every pool, whose owner ends it.
    Set(Arc<Set>),
}

impl LocalMachines {
    /// Those of every pool in a folder of its own.
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        Self { home: Home::Folder(folder), boots: Mutex::default() }
    }

    /// Those of a set.
    pub(crate) fn of_set(set: Arc<Set>) -> Self {
        Self { home: Home::Set(set), boots: Mutex::default() }
    }

    /// Where the machines of a pool are kept.
    fn folder(&self, pool: &PoolOfMachines) -> PathBuf {
        let name = format!("{}.{}", pool.namespace, pool.name);
        match &self.home {
            Home::Folder(folder) => folder.join(name),
            Home::Set(_) => PathBuf::from(name),
        }
    }

    /// Does something with the set of a pool, where waiting holds nobody up.
    async fn with_set<T: Send + 'static>(
        &self,
        pool: &PoolOfMachines,
        work: impl FnOnce(&Set) -> capstan_nspawn::Result<T> + Send + 'static,
    ) -> Result<T, ProvisionError> {
        let set = match &self.home {
            Home::Set(set) => Some(Arc::clone(set)),
            Home::Folder(_) => None,
        };
        let (folder, pool) = (self.folder(pool), pool.clone());
        let done = tokio::task::spawn_blocking(move || match set {
            Some(set) => work(&set).map_err(|error| told(&error)),
            None => {
                let base = Path::new(&pool.root_filesystem);
                let set = Set::lasting(&folder, base, &pool.bridge).map_err(|error| told(&error))?;
                work(&set).map_err(|error| told(&error))
            }
        });
        done.await.map_err(|error| ProvisionError(error.to_string()))?.map_err(ProvisionError)
    }

    fn boots(&self) -> MutexGuard<'_, Boots> {
        self.boots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has become of a boot that was begun, if one was: nothing yet, or its end. The end is told once.
    async fn boot(&self, key: &(PathBuf, String)) -> Option<Result<MachineState, ProvisionError>> {
        let ended = {
            let mut boots = self.boots();
            match boots.get(key)?.is_finished() {
                false => return Some(Ok(MachineState::Starting)),
                true => boots.remove(key)?,
            }
        };
        match ended.await {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(Err(ProvisionError(why))),
            Err(error) => Some(Err(ProvisionError(error.to_string()))),
        }
    }
}

impl Provisioner for LocalMachines {
    fn ensure<'a>(
        &'a self,
        pool: &'a PoolOfMachines,
        name: &'a str,
        authorized_key: &'a str,
    ) -> BoxFuture<'a, Result<MachineState, ProvisionError>> {
        Box::pin(async move {
            let key = (self.folder(pool), name.to_owned());
            if let Some(state) = self.boot(&key).await {
                return state;
            }
            let wanted = name.to_owned();
            if let Some(machine) = self.with_set(pool, move |set| set.get(&wanted)).await?
                && machine.is_running()
            {
                return Ok(MachineState::Up(seen(&machine)));
            }
            let spec = MachineSpec::new(name, authorized_key);
            let made = self.with_set(pool, move |set| match set.get(&spec.name)? {
                Some(machine) => Ok(machine),
                None => set.add(&spec),
            });
            let machine = made.await?;
            let boot = move || machine.start().and_then(|()| machine.wait_for_ssh(BOOT));
            let boot = tokio::task::spawn_blocking(move || boot().map_err(|error| told(&error)));
            self.boots().insert(key, boot);
            Ok(MachineState::Starting)
        })
    }

    fn remove<'a>(
        &'a self,
        pool: &'a PoolOfMachines,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ProvisionError>> {
        Box::pin(async move {
            let boot = self.boots().remove(&(self.folder(pool), name.to_owned()));
            if let Some(boot) = boot {
                // It ends soon once there is no machine any more; two must not work on one machine.
                _ = boot.await;
            }
            let name = name.to_owned();
            self.with_set(pool, move |set| set.remove(&name)).await
        })
    }

    fn list<'a>(&'a self, pool: &'a PoolOfMachines) -> BoxFuture<'a, Result<Vec<String>, ProvisionError>> {
        let names = |set: &Set| {
            Ok(set.machines()?.iter().map(|machine| machine.name().to_owned()).collect::<Vec<_>>())
        };
        Box::pin(self.with_set(pool, names))
    }
}

fn seen(machine: &Machine) -> LocalMachine {
    LocalMachine {
        address: machine.address().to_string(),
        port: 22,
        host_keys: vec![machine.host_key().to_owned()],
    }
}

/// An error with what caused it.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
