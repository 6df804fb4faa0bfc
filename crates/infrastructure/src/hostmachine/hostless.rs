//! Which HostMachines have no host yet, and which host each of them asks for by name.
//!
//! A Host that changes concerns the machine that has it and those that have none. To look for these among all machines at
//! every change of every host is too much where there are thousands, so they are kept here. The triggers keep it up to
//! date.

use capstan_api::infrastructure::HostMachine;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By namespace and name of the HostMachine: the host that `spec.hostName` asks for.
type Machines = HashMap<String, BTreeMap<String, Option<String>>>;

#[derive(Default)]
pub(super) struct Hostless(Mutex<Machines>);

impl Hostless {
    /// Updates a HostMachine, or removes a deleted one. Returns whether it is one without a host.
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

    /// Machines that a change of a host concerns although they do not have it: those that ask for it by name, and those
    /// that take any, if it can be claimed.
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
