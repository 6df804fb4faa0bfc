//! The model of one machine, and its storage.
//!
//! [`state`] is the state of a machine, [`files`] its file system, [`program`] the programs that it supports; all are
//! pure. [`Vm`] stores a state on disk, and [`machine`] connects it to the plan engine.

pub mod files;
mod machine;
pub mod program;
pub mod state;
mod systemd;

pub use machine::VmMachine;

use capstan_files::Durability;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::connections::Connections;
use crate::fault::Fault;
use state::State;

const FILE: &str = "vm.json";

/// A virtual machine whose state is stored on disk.
pub struct Vm {
    folder: PathBuf,
    name: String,
    state: Mutex<State>,
    fault: Mutex<Option<Fault>>,
    connections: Connections,
}

impl Vm {
    /// Opens the machine in `folder`, or creates it.
    ///
    /// # Errors
    /// If the folder cannot be read or written.
    pub fn open(folder: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let state = match fs::read(folder.join(FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::new(name),
            Err(error) => return Err(error),
        };
        let vm = Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            state: Mutex::new(state),
            fault: Mutex::default(),
            connections: Connections::default(),
        };
        vm.change(|_| ())?;
        Ok(vm)
    }

    /// The same with an agent that shares these connections with others.
    pub(crate) fn sharing(self, connections: Connections) -> Self {
        Self { connections, ..self }
    }

    /// The connections that the agent uses.
    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Name of the machine: that of its host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder of the agent's journal.
    pub fn agent_folder(&self) -> PathBuf {
        self.folder.join("agent")
    }

    /// Reads the state of the machine.
    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the state of the machine. The change is on disk when the call returns; it is atomic on disk and in
    /// memory.
    ///
    /// The I/O runs on the caller's thread. It takes a few milliseconds, and no other change can come between disk and
    /// memory.
    ///
    /// # Errors
    /// If the state cannot be written; it is unchanged then.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> io::Result<T> {
        let mut state = self.lock();
        let mut next = state.clone();
        let result = change(&mut next);
        write(&self.folder, &serde_json::to_vec(&next)?)?;
        *state = next;
        Ok(result)
    }

    /// The fault that is injected into the machine.
    pub fn fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the fault to inject, or ends fault injection.
    pub fn set_fault(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Waits as long as one step takes on this machine.
    pub async fn take_time(&self) {
        let milliseconds = self.look(|state| state.latency.step_milliseconds);
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A state is replaced whole, so a panic elsewhere cannot have left half of one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    capstan_files::write(&folder.join(FILE), bytes, 0o600, Durability::Lasting).map_err(|error| error.source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::state::Unit;

    #[test]
    fn a_machine_is_what_it_was_after_the_process_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (id, boot) = {
            let vm = Vm::open(folder.path(), "web-0").expect("a machine");
            vm.change(|state| state.units.insert("k3s.service".to_owned(), Unit::default()))
                .expect("written");
            vm.look(|state| (state.machine_id.clone(), state.boot_id.clone()))
        };
        let vm = Vm::open(folder.path(), "web-0").expect("the machine");
        assert_eq!(vm.look(|state| (state.machine_id.clone(), state.boot_id.clone())), (id, boot));
        assert!(vm.look(|state| state.units.contains_key("k3s.service")));
    }
}
