//! The HostMachines without a host, and the host that each of them names.
//!
//! A changed Host concerns the machine that has claimed it and the machines without a host. This index makes it
//! unnecessary to search all machines for each change of a Host. The triggers keep it up to date.

use capstan_api::infrastructure::HostMachine;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By namespace and name of the HostMachine: its `spec.hostName`.
type Machines = HashMap<String, BTreeMap<String, Option<String>>>;

#[derive(Default)]
pub(super) struct Hostless(Mutex<Machines>);

impl Hostless {
    /// Updates a HostMachine, or removes a deleted one. Returns whether it has no host.
    pub(super) fn note(&self, namespace: &str, name: &str, machine: Option<&HostMachine>) -> bool {
        let is_recorded =
            |machine: &&HostMachine| machine.spec.host_name.is_some() && machine.spec.provider_id.is_some();
        let hostless = machine.filter(|machine| !is_recorded(machine));
        let mut all = self.lock();
        let in_namespace = all.entry(namespace.to_owned()).or_default();
        match hostless {
            Some(machine) => _ = in_namespace.insert(name.to_owned(), machine.spec.host_name.clone()),
            None => _ = in_namespace.remove(name),
        }
        if in_namespace.is_empty() {
            all.remove(namespace);
        }
        hostless.is_some()
    }

    /// Machines without a host that a change of a host concerns: those that name it, and, if it can be claimed, those
    /// that take any host.
    pub(super) fn concerned(&self, namespace: &str, host: &str, is_free: bool) -> Vec<String> {
        let all = self.lock();
        let in_namespace = all.get(namespace).into_iter().flatten();
        let concerned =
            in_namespace.filter(|(_, wanted)| wanted.as_deref().map_or(is_free, |wanted| wanted == host));
        concerned.map(|(name, _)| name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Machines> {
        // A panic elsewhere has not broken it: each change is one insertion or removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_concerns_machines_that_may_claim_it() {
        let hostless = Hostless::default();
        let mut recorded = HostMachine::new("m", Default::default());
        recorded.spec.host_name = Some("h".to_owned());
        let named = recorded.clone();
        recorded.spec.provider_id = Some("capstan://n/h/c".to_owned());
        let any = HostMachine::new("m", Default::default());
        assert!(hostless.note("n", "any", Some(&any)) && hostless.note("n", "named", Some(&named)));
        assert!(!hostless.note("n", "has-one", Some(&recorded)));
        assert!(hostless.note("elsewhere", "other", Some(&any)));

        assert_eq!(hostless.concerned("n", "h", true), ["any", "named"]);
        assert_eq!(hostless.concerned("n", "h", false), ["named"], "it has other words to say of it");
        assert_eq!(hostless.concerned("n", "i", true), ["any"]);
        assert_eq!(hostless.concerned("n", "i", false), [""; 0]);

        assert!(!hostless.note("n", "named", Some(&recorded)) && !hostless.note("n", "any", None));
        assert_eq!(hostless.concerned("n", "h", true), [""; 0]);
        assert_eq!(hostless.lock().len(), 1, "a namespace without such machines is forgotten");
    }
}
