//! The guard: the previous program, which systemd starts before each start of the agent.

use capstan_plan::{Digest, limits};
use jiff::Timestamp;

use super::{GuardStep, Occasion, Places, UpgradeState, at_start};
use crate::machine::{Found, Machine, MachineError};

/// What the guard has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// Nothing.
    Nothing,
    /// A program on trial is about to be started.
    OnTrial {
        /// For this time.
        starts: u32,
    },
    /// The previous program is back.
    Returned,
}

/// Looks after a program that is not confirmed.
///
/// # Errors
/// If the machine does not let it. It is tried again with the next start.
pub async fn guard(
    machine: &impl Machine,
    places: &Places,
    occasion: Occasion,
    now: Timestamp,
) -> Result<Guarded, MachineError> {
    let state = places.read(machine).await?;
    let (UpgradeState::Trial { to, from, .. } | UpgradeState::Returning { to, from, .. }) = &state else {
        return Ok(Guarded::Nothing);
    };
    let is_new = machine.is_installed(&places.artifact(to, &places.program)).await? == Some(true);
    let is_previous = match machine.inspect(&places.program).await? {
        Found::File { .. } => Digest::of(&machine.read(&places.program, limits::AGENT_BYTES).await?) == *from,
        _ => false,
    };
    match at_start(&state, occasion, is_new, is_previous) {
        GuardStep::Leave => Ok(Guarded::Nothing),
        GuardStep::Forget => places.write(machine, &UpgradeState::Idle).await.map(|()| Guarded::Nothing),
        GuardStep::Count(starts) => {
            let counted = UpgradeState::Trial { to: to.clone(), from: *from, starts };
            places.write(machine, &counted).await.map(|()| Guarded::OnTrial { starts })
        }
        GuardStep::Return { reason } => {
            let previous = machine.read(&places.previous, limits::AGENT_BYTES).await?;
            if Digest::of(&previous) != *from {
                let reason = "it is not the program that was kept";
                return Err(MachineError::io(
                    format!("put {} back", places.previous),
                    std::io::Error::other(reason),
                ));
            }
            // First: after a crash the next start continues, and does not count.
            let returning = UpgradeState::Returning { to: to.clone(), from: *from, reason: reason.clone() };
            places.write(machine, &returning).await?;
            places.put(machine, &places.program, &previous).await?;
            let rejected = UpgradeState::Rejected { program: to.clone(), reason, since: now };
            places.write(machine, &rejected).await.map(|()| Guarded::Returned)
        }
    }
}
