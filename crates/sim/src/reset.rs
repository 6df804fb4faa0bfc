//! Resets a machine: the engine undoes the changes of plans, the files of the bootstrap data are removed, and the
//! result is compared with a new machine.

use capstan_agent::Reset;
use capstan_plan::MachinePath;
use std::io;
use std::sync::Weak;

use crate::agent;
use crate::fault::Fault;
use crate::host::{SimHost, remove};
use crate::vm::files::PUBLIC;
use crate::vm::state::LastReset;
use crate::vm::{Vm, VmMachine};

/// What the fault `dirty-reset` leaves.
const LEFT_BEHIND: &str = "/var/lib/left-behind";

/// Runs to the end, or to the first error: the next question starts it again, from the beginning.
pub(crate) async fn run(vm: &Vm, machine: &VmMachine, host: &Weak<SimHost>) {
    match undo(vm, machine).await {
        Ok(()) => _ = host.upgrade().map(|host| host.changed()),
        Err(error) => tracing::warn!(host = vm.name(), %error, "the reset failed and will be tried again"),
    }
}

async fn undo(vm: &Vm, machine: &VmMachine) -> io::Result<()> {
    let Some(life) = vm.look(|state| state.life.clone()) else { return Ok(()) };
    vm.take_time().await;
    let mut left = Vec::new();
    {
        let mut engine = agent::open(vm, machine).await?;
        if let Reset::Left(leftovers) = engine.reset(None).await.map_err(io::Error::other)? {
            left.extend(leftovers.iter().map(ToString::to_string));
        }
    }
    vm.change(|state| {
        for path in life.paths.iter().rev().filter_map(|path| MachinePath::new(path.clone()).ok()) {
            // What does not go is found below.
            let _ = state.files.remove_file(&path).or_else(|_| state.files.remove_directory(&path));
        }
        if vm.fault() == Some(Fault::DirtyReset)
            && let Ok(path) = MachinePath::new(LEFT_BEHIND)
        {
            let _ = state.files.write_with_parents(&path, b"", PUBLIC);
        }
    })?;
    left.extend(vm.look(|state| state.leftovers(vm.name())));
    left.dedup();
    if left.is_empty() {
        remove(&vm.agent_folder())?;
    }
    vm.change(|state| {
        if left.is_empty() {
            *state = state.wiped(vm.name());
        }
        state.life = None;
        state.last_reset = Some(LastReset { claim_id: life.claim_id, left });
    })
}
