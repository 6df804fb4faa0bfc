//! A set of machines: one folder, one network, one owner.

use capstan_files::Durability;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::cgroup::Layout;
use crate::disk::{self, MachineSpec, random};
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::network::Network;
use crate::record::Record;
use crate::requirements;
use crate::traces::{self, cgroup_name};

/// How long machines live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// As long as the process that made them.
    Owned,
    /// Until they are removed.
    Lasting,
}

/// Where a set lives. Shared with the handles to its machines.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) folder: PathBuf,
    id: String,
    base: PathBuf,
    pub(crate) network: Network,
    pub(crate) layout: Layout,
    pub(crate) life: Life,
    /// Locked while the owner lives.
    _owner: Option<File>,
}

impl Home {
    /// What tells the machine with this address from all others on this machine. Short: it becomes part of the
    /// name of a network link, and those have at most 15 characters.
    pub(crate) fn machine_id(&self, address: Ipv4Addr) -> String {
        format!("{}{:02x}", self.id, address.octets()[3])
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.life == Life::Owned {
            remove_traces(&self.folder, &self.id, &self.layout);
        }
    }
}

/// A set of machines.
#[derive(Debug)]
pub struct Set {
    home: Arc<Home>,
}

impl Set {
    /// Creates an empty set with its own network, in a new folder below `sets`. The set and its machines are removed
    /// when the set and all handles to its machines are dropped. If this process is killed, its machines are shut down,
    /// and the next [`cleanup`] removes the remaining files.
    ///
    /// # Errors
    /// If a requirement is not met, `base` is not a root file system, or the network cannot be created.
    pub fn owned(sets: &Path, base: &Path) -> Result<Self> {
        requirements::check()?;
        disk::check_base(base)?;
        let layout = Layout::of_this_host()?;
        raise_limits();
        fs::create_dir_all(sets).map_err(Error::io("make", sets))?;
        let _lock = lock(sets)?;
        let id = random(4)?;
        let folder = sets.join(&id);
        fs::create_dir(&folder).map_err(Error::io("make", &folder))?;
        let owner = folder.join(OWNER);
        let owner = File::create(&owner)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(Error::io("lock", &owner))?;
        let network = Network::make(&bridge(&id)).inspect_err(|_| {
            let _ = fs::remove_dir_all(&folder);
        })?;
        let home = Home {
            folder,
            id,
            base: base.to_owned(),
            network,
            layout,
            life: Life::Owned,
            _owner: Some(owner),
        };
        Ok(Self { home: Arc::new(home) })
    }

    /// Opens the machines in `folder`, on an existing bridge. They run until they are stopped, even if the process that
    /// created them ends; another process can open the same folder.
    ///
    /// # Errors
    /// If a requirement is not met, `base` is not a root file system, or there is no such bridge.
    pub fn lasting(folder: &Path, base: &Path, bridge: &str) -> Result<Self> {
        requirements::check()?;
        disk::check_base(base)?;
        let (layout, network) = (Layout::of_this_host()?, Network::of_bridge(bridge)?);
        raise_limits();
        fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
        let id = {
            let _lock = lock(folder)?;
            lasting_id(folder)?
        };
        let home = Home {
            folder: folder.to_owned(),
            id,
            base: base.to_owned(),
            network,
            layout,
            life: Life::Lasting,
            _owner: None,
        };
        Ok(Self { home: Arc::new(home) })
    }

    /// Network of the set.
    pub fn network(&self) -> &Network {
        &self.home.network
    }

    /// Creates a machine: a copy of the root file system, with a name, an address and keys. It is not started.
    ///
    /// # Errors
    /// If a machine with this name exists, or its disk cannot be written.
    pub fn add(&self, spec: &MachineSpec) -> Result<Machine> {
        check_name(&spec.name)?;
        let folder = self.home.folder.join(&spec.name);
        if folder.exists() {
            return Err(Error::Exists { name: spec.name.clone() });
        }
        // What has this name is whole: it is made beside it. Under the lock, so that no two get one address.
        let partial = self.home.folder.join(format!(".{}.partial", spec.name));
        let lock = lock(&self.home.folder)?;
        remove_folder(&partial)?;
        let address = self
            .home
            .network
            .subnet()
            .free_address(&self.addresses()?)
            .ok_or(Error::Full { what: "address on the machines' network" })?;
        fs::create_dir(&partial).map_err(Error::io("make", &partial))?;
        let mut record = Record { name: spec.name.clone(), address, host_key: String::new() };
        record.write(&partial)?;
        drop(lock);

        let root = partial.join("root");
        record.host_key = disk::make(&root, &self.home.base, spec, address, self.home.network.subnet())?;
        record.write(&partial)?;
        fs::rename(&partial, &folder).map_err(Error::io("name", &folder))?;
        Ok(Machine::new(Arc::clone(&self.home), record))
    }

    /// The machine with this name.
    ///
    /// # Errors
    /// If the record of the machine cannot be read.
    pub fn get(&self, name: &str) -> Result<Option<Machine>> {
        check_name(name)?;
        let record = Record::read(&self.home.folder.join(name))?;
        Ok(record.map(|record| Machine::new(Arc::clone(&self.home), record)))
    }

    /// All machines, sorted by name.
    ///
    /// # Errors
    /// If the record of a machine cannot be read.
    pub fn machines(&self) -> Result<Vec<Machine>> {
        let mut names: Vec<String> =
            folders(&self.home.folder)?.into_iter().filter(|name| check_name(name).is_ok()).collect();
        names.sort_unstable();
        names.iter().filter_map(|name| self.get(name).transpose()).collect()
    }

    /// Kills a machine and removes its disk. Does nothing if there is no machine with this name.
    ///
    /// # Errors
    /// If the machine cannot be removed completely.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.get(name)?.map_or(Ok(()), |machine| machine.destroy())
    }

    /// The addresses that are given out, also those of machines that are being made.
    fn addresses(&self) -> Result<Vec<Ipv4Addr>> {
        let folders = folders(&self.home.folder)?;
        let records = folders.iter().map(|name| Record::read(&self.home.folder.join(name)));
        records.filter_map(Result::transpose).map(|record| record.map(|record| record.address)).collect()
    }
}

const OWNER: &str = "owner";

/// Removes the sets of processes that were killed before they could remove them. Returns the IDs of the removed sets.
///
/// # Errors
/// If `sets` cannot be read.
pub fn remove_leftover_sets(sets: &Path) -> Result<Vec<String>> {
    if !sets.is_dir() {
        return Ok(Vec::new());
    }
    let layout = Layout::of_this_host()?;
    let _lock = lock(sets)?;
    let mut gone = Vec::new();
    for id in folders(sets)? {
        let folder = sets.join(&id);
        let Ok(owner) = File::open(folder.join(OWNER)) else { continue };
        if owner.try_lock().is_ok() {
            remove_traces(&folder, &id, &layout);
            if !folder.exists() {
                gone.push(id);
            }
        }
    }
    Ok(gone)
}

/// Ends a set that has an owner. Whatever can be removed is, also when something else cannot.
fn remove_traces(folder: &Path, id: &str, layout: &Layout) {
    for name in layout.with_prefix(&cgroup_name(id)) {
        layout.named(&name).remove(Duration::from_secs(20));
    }
    traces::remove_all(id);
    Network::remove(&bridge(id));
    let _ = fs::remove_dir_all(folder);
}

/// Names of network links have at most 15 characters.
fn bridge(id: &str) -> String {
    format!("cap-{id}")
}

fn check_name(name: &str) -> Result<()> {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_name = (1..=32).contains(&name.len())
        && name.as_bytes()[0].is_ascii_lowercase()
        && !name.ends_with('-')
        && name.bytes().all(plain);
    if is_name { Ok(()) } else { Err(Error::Name { name: name.to_owned() }) }
}

/// A machine has several programs that watch files, and the limit is for all of root's together. It is only ever
/// raised; where it must not be, machines may fail to start services, and say so on their console.
fn raise_limits() {
    const LIMIT: &str = "/proc/sys/fs/inotify/max_user_instances";
    let now = fs::read_to_string(LIMIT).ok().and_then(|text| text.trim().parse::<u32>().ok());
    if now.is_some_and(|now| now < 4096) {
        let _ = fs::write(LIMIT, "4096");
    }
}

fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(".lock");
    let file = File::create(&path).map_err(Error::io("open", &path))?;
    file.lock().map_err(Error::io("lock", &path))?;
    Ok(file)
}

fn lasting_id(folder: &Path) -> Result<String> {
    let path = folder.join("id");
    if let Ok(id) = fs::read_to_string(&path) {
        return Ok(id.trim().to_owned());
    }
    let id = random(4)?;
    capstan_files::write(&path, id.as_bytes(), 0o644, Durability::Whole)
        .map_err(|error| Error::io("write", &path)(error.source))?;
    Ok(id)
}

/// The folders in a folder, also those being made.
fn folders(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(folders.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", folder)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["m", "cp-1", "a2345678901234567890123456789012"] {
            check_name(good).expect(good);
        }
        for bad in ["", "-a", "a-", "1a", "A", "a.b", "a/b", "..", "a23456789012345678901234567890123"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_links_fit() {
        assert!(bridge(&random(4).expect("random")).len() <= 15);
    }

    #[test]
    fn a_lasting_set_keeps_its_id() {
        let folder = tempfile::tempdir().expect("a folder");
        let id = lasting_id(folder.path()).expect("made");
        assert_eq!(lasting_id(folder.path()).expect("read"), id);
    }
}
