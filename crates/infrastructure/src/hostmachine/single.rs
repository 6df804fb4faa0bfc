//! Which HostMachines are known to have no more than one host.
//!
//! Two managers that claim for the same machine at the same moment may claim two hosts, and the one that is not recorded is
//! given back. To find it all hosts must be looked at. With thousands of machines that is too much for every look, so it is
//! done once for each machine and process after the host was recorded, and then from time to time. A process that has
//! claimed a second host itself has not noted the machine yet: it notes only a machine whose host it has seen recorded.

use capstan_api::infrastructure::HostMachine;
use kube::ResourceExt as _;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After this time all hosts are looked at again.
const TRUSTED: Duration = Duration::from_secs(600);
/// So many are remembered; then it starts afresh, which costs a look at all hosts for each.
const MOST: usize = 20_000;

/// By UID of the HostMachine: its claim, and when all hosts were looked at.
#[derive(Default)]
pub(super) struct SingleHosts(Mutex<HashMap<String, (String, Instant)>>);

impl SingleHosts {
    /// Whether no other host than the recorded one need be looked at.
    pub(super) fn holds(&self, machine: &HostMachine, now: Instant) -> bool {
        let Some((uid, claim)) = recorded(machine) else { return false };
        let known = self.lock();
        known.get(&uid).is_some_and(|(of, at)| of == claim && now.saturating_duration_since(*at) < TRUSTED)
    }

    /// All hosts were looked at for a machine, and no second one has its claim.
    pub(super) fn note(&self, machine: &HostMachine, now: Instant) {
        let Some((uid, claim)) = recorded(machine) else { return };
        let mut known = self.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(uid, (claim.to_owned(), now));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (String, Instant)>> {
        // What is inside spares work, nothing more: a panic elsewhere has not broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// UID and claim of a machine whose host is recorded.
fn recorded(machine: &HostMachine) -> Option<(String, &str)> {
    let is_recorded = machine.spec.host_name.is_some() && machine.spec.provider_id.is_some();
    let claim = machine.spec.claim_id.as_deref().filter(|_| is_recorded)?;
    Some((machine.uid()?, claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_recorded_machine_is_known_to_have_one_host_and_only_for_a_while() {
        let (single, now) = (SingleHosts::default(), Instant::now());
        let mut machine = HostMachine::new("m", Default::default());
        machine.metadata.uid = Some("u".to_owned());
        machine.spec.claim_id = Some("c".to_owned());
        machine.spec.host_name = Some("h".to_owned());
        single.note(&machine, now);
        assert!(!single.holds(&machine, now), "a user has named the host, and it is not claimed");
        machine.spec.provider_id = Some("capstan://n/h/c".to_owned());
        assert!(!single.holds(&machine, now));
        single.note(&machine, now);
        assert!(single.holds(&machine, now + TRUSTED / 2));
        assert!(!single.holds(&machine, now + TRUSTED));
        machine.spec.claim_id = Some("d".to_owned());
        assert!(!single.holds(&machine, now));
    }
}
