//! Facts about HostMachines that are cached for a while, so that not every reconcile reads them.

use capstan_api::infrastructure::HostMachine;
use kube::ResourceExt as _;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// At most this many machines. Then the cache is cleared, which costs one check for each.
const MOST: usize = 20_000;

/// Machines for which a fact holds until a time. By UID of the HostMachine: its claim, and that time.
#[derive(Default)]
pub(super) struct KnownUntil(Mutex<HashMap<String, (String, Instant)>>);

impl KnownUntil {
    /// How much longer the fact holds for a machine under its claim.
    pub(super) fn left(&self, machine: &HostMachine, now: Instant) -> Option<Duration> {
        let (uid, claim) = recorded(machine)?;
        let known = self.lock();
        let (_, until) = known.get(&uid).filter(|(of, _)| of == claim)?;
        until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// The fact holds for a machine until this time. Ignored for a machine without a recorded host.
    pub(super) fn note(&self, machine: &HostMachine, until: Instant) {
        let Some((uid, claim)) = recorded(machine) else { return };
        let mut known = self.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(uid, (claim.to_owned(), until));
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
    fn known_of_a_recorded_machine_under_its_claim_and_only_for_a_while() {
        const WHILE: Duration = Duration::from_secs(600);
        let (known, now) = (KnownUntil::default(), Instant::now());
        let mut machine = HostMachine::new("m", Default::default());
        machine.metadata.uid = Some("u".to_owned());
        machine.spec.claim_id = Some("c".to_owned());
        machine.spec.host_name = Some("h".to_owned());
        known.note(&machine, now + WHILE);
        assert_eq!(known.left(&machine, now), None, "a user has named the host, and it is not claimed");
        machine.spec.provider_id = Some("capstan://n/h/c".to_owned());
        assert_eq!(known.left(&machine, now), None);
        known.note(&machine, now + WHILE);
        assert_eq!(known.left(&machine, now + WHILE / 2), Some(WHILE / 2));
        assert_eq!(known.left(&machine, now + WHILE), None);
        machine.spec.claim_id = Some("d".to_owned());
        assert_eq!(known.left(&machine, now), None);
    }
}
