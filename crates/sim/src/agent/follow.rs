//! A simulated machine follows its cluster to another management plane, with the decision function of the real agent.

use capstan_agent::follow::{Refusal, Verdict, decide};
use capstan_agent::journal::History;
use capstan_agent::machine::Metadata;
use capstan_plan::MachinePath;
use std::io;

use super::enrol::{self, CREDENTIAL, REQUEST};
use super::{CONFIG, Home};
use crate::vm::Vm;
use crate::vm::files::PUBLIC;

/// Root's, and nobody else's.
const PRIVATE: Metadata = Metadata { mode: 0o600, ..PUBLIC };

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// It is so already.
    Stays,
    /// Another agent.json lies there; the agent must be started anew.
    Changed,
    /// Not that one.
    Refused(Refusal),
}

/// Whether this very `agent.json` lies there.
pub(crate) fn has_config(vm: &Vm, config: &[u8]) -> bool {
    vm.look(|state| state.files.read(CONFIG) == Some(config))
}

/// Takes another `agent.json`, if the machine may. `history` says which manager and which key it has obeyed.
///
/// # Errors
/// If there is no agent, what was sent is no agent.json, or the machine cannot be written down.
pub(crate) async fn follow(vm: &Vm, history: &History, config: &[u8]) -> io::Result<Followed> {
    let ours = vm.look(|state| state.files.read(CONFIG).map(<[u8]>::to_vec));
    let ours = ours.ok_or_else(|| io::Error::other(format!("{CONFIG} is missing")))?;
    let (now, then) = (Home::parse(&ours), Home::parse(config));
    let (mut now, then) = (now.map_err(io::Error::other)?, then.map_err(io::Error::other)?);
    let known = history.plan_key.unwrap_or(now.allegiance.plan_key);
    now.allegiance.plan_key = now.allegiance.successions.heir(known);
    let has_credential = Box::pin(enrol::has_credential(vm)).await;
    match decide(&now.allegiance, history.epoch, &then.allegiance, has_credential) {
        Verdict::Stay => Ok(Followed::Stays),
        Verdict::Refuse(why) => Ok(Followed::Refused(why)),
        // In one moment: the old credential is of no use any more.
        Verdict::Follow => vm.change(|state| {
            for path in [CREDENTIAL, REQUEST] {
                let path = MachinePath::new(path).map_err(io::Error::other)?;
                if state.files.read(path.as_str()).is_some() {
                    state.files.remove_file(&path).map_err(io::Error::other)?;
                }
            }
            let path = MachinePath::new(CONFIG).map_err(io::Error::other)?;
            state.files.write_with_parents(&path, config, PRIVATE).map_err(io::Error::other)?;
            Ok(Followed::Changed)
        })?,
    }
}
