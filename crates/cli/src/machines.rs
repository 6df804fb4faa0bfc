//! Local machines for HostPools, created on this computer with systemd-nspawn.

use capstan_infrastructure::{LocalMachine, MachineState, PoolOfMachines, ProvisionError, Provisioner};
use capstan_nspawn::{Machine, MachineSpec, Set};
use capstan_text::chain;
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long a machine may take from its start until its SSH server answers.
const BOOT: Duration = Duration::from_secs(120);

/// How long a boot that was given up may go on before its machine is killed, and killed again.
const MOMENT: Duration = Duration::from_millis(200);

/// Machines that are being made and booted, by the folder of their pool and their name.
type Boots = HashMap<(PathBuf, String), Boot>;

/// A machine on its way up.
struct Boot {
    /// Nobody wants it any more.
    given_up: Arc<AtomicBool>,
    task: JoinHandle<Result<(), ProvisionError>>,
}

/// Creates machines that outlive this process, or machines of one set that ends with it.
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
    /// Machines that outlive this process; each pool has a folder below `folder`.
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        Self { home: Home::Folder(folder), boots: Mutex::default() }
    }

    /// Machines of a set.
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
    fn with_set<T, W>(
        &self,
        pool: &PoolOfMachines,
        work: W,
    ) -> impl Future<Output = Result<T, ProvisionError>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&Set) -> capstan_nspawn::Result<T> + Send + 'static,
    {
        let set = match &self.home {
            Home::Set(set) => Some(Arc::clone(set)),
            Home::Folder(_) => None,
        };
        let (folder, pool) = (self.folder(pool), pool.clone());
        let work = move || match set {
            Some(set) => work(&set),
            None => work(&Set::lasting(&folder, Path::new(&pool.root_filesystem), &pool.bridge)?),
        };
        let done = tokio::task::spawn_blocking(move || work().map_err(|error| chain(&error)));
        async { done.await.map_err(|error| ProvisionError(error.to_string()))?.map_err(ProvisionError) }
    }

    fn boots(&self) -> MutexGuard<'_, Boots> {
        self.boots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has become of a boot that was begun, if one was: nothing yet, or its end. The end is told once.
    async fn boot(&self, key: &(PathBuf, String)) -> Option<Result<MachineState, ProvisionError>> {
        let ended = {
            let mut boots = self.boots();
            match boots.get(key)?.task.is_finished() {
                false => return Some(Ok(MachineState::Starting)),
                true => boots.remove(key)?,
            }
        };
        match ended.task.await {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(Err(why)),
            Err(error) => Some(Err(ProvisionError(error.to_string()))),
        }
    }

    /// Makes a machine if there is none, and boots it.
    fn begin(&self, pool: &PoolOfMachines, spec: MachineSpec) -> Boot {
        let given_up = Arc::new(AtomicBool::new(false));
        let is_unwanted = Arc::clone(&given_up);
        let boot = self.with_set(pool, move |set| {
            let machine = match set.get(&spec.name)? {
                Some(machine) => machine,
                None => set.add(&spec)?,
            };
            if is_unwanted.load(Ordering::SeqCst) {
                return Ok(());
            }
            machine.start()?;
            machine.wait_for_ssh(BOOT)
        });
        Boot { given_up, task: tokio::spawn(boot) }
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
            // Whoever came between has begun it.
            self.boots().entry(key).or_insert_with(|| self.begin(pool, spec));
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
            let name = name.to_owned();
            if let Some(mut boot) = boot {
                // Two must not work on one machine. What it is waited for never comes once it does not run.
                boot.given_up.store(true, Ordering::SeqCst);
                while tokio::time::timeout(MOMENT, &mut boot.task).await.is_err() {
                    let name = name.clone();
                    let killed = self.with_set(pool, move |set| match set.get(&name)? {
                        Some(machine) => machine.kill(),
                        None => Ok(()),
                    });
                    killed.await?;
                }
            }
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
