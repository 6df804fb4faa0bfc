//! Many machines and several managers race for hosts, and any of them dies between any two writes.
//!
//! The model is the API server: objects with versions, writes that fail when the version is another. A manager is
//! the loop of the reconciler, cut into its reads and writes; the schedule says who does his next read or write, and whose
//! memory is lost before it.

use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostClaim, HostMachine};
use kube::ResourceExt as _;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fixtures::{cluster, host, machine, owner};
use crate::hostmachine::{HostMachineStep, Observed, decide, provider_id};

#[derive(Clone)]
struct Versioned<T>(u64, T);

struct World {
    clock: u64,
    machines: Vec<Versioned<HostMachine>>,
    hosts: Vec<Versioned<Host>>,
    owner: Machine,
    cluster: Cluster,
    /// On which host each machine's bootstrap data ran: all it takes to break a promise.
    started: BTreeMap<usize, BTreeSet<String>>,
}

/// What a manager remembers of its work on one machine.
#[derive(Clone, Default)]
enum Memory {
    #[default]
    Nothing,
    Machine(Box<Versioned<HostMachine>>),
    Both(Box<Versioned<HostMachine>>, Vec<Versioned<Host>>),
}

impl World {
    fn new(machines: usize, hosts: usize) -> Self {
        let named = |number: usize| {
            let mut machine = machine();
            machine.metadata.name = Some(format!("m{number}"));
            Versioned(0, machine)
        };
        Self {
            clock: 0,
            machines: (0..machines).map(named).collect(),
            hosts: (0..hosts).map(|number| Versioned(0, host(&format!("h{number}")))).collect(),
            owner: owner(Some("data")),
            cluster: cluster(true),
            started: BTreeMap::new(),
        }
    }

    /// One read or one write of a manager.
    fn step(&mut self, index: usize, memory: &mut Memory) {
        match std::mem::take(memory) {
            Memory::Nothing => *memory = Memory::Machine(Box::new(self.machines[index].clone())),
            Memory::Machine(machine) => *memory = Memory::Both(machine, self.hosts.clone()),
            Memory::Both(machine, hosts) => self.write(index, &machine, &hosts),
        }
    }

    fn write(&mut self, index: usize, machine: &Versioned<HostMachine>, hosts: &[Versioned<Host>]) {
        let seen_hosts: Vec<Arc<Host>> = hosts.iter().map(|host| Arc::new(host.1.clone())).collect();
        let step = decide(Observed {
            machine: &machine.1,
            owner: Some(&self.owner),
            cluster: Some(&self.cluster),
            host_cluster: None,
            hosts: &seen_hosts,
        });
        let id = machine.1.spec.claim_id.clone().unwrap_or_default();
        match step {
            HostMachineStep::Wait(_) => {}
            HostMachineStep::ChooseClaimId => {
                let id = format!("claim-{index}-{}", self.clock);
                self.write_machine(index, machine.0, |machine| machine.spec.claim_id = Some(id));
            }
            HostMachineStep::Record(host) => {
                let name = host.name_any();
                self.write_machine(index, machine.0, |machine| {
                    machine.spec.provider_id = Some(provider_id("yard", &name, &id));
                    machine.spec.host_name = Some(name);
                });
            }
            HostMachineStep::Claim(host) => {
                let claim = HostClaim {
                    id,
                    machine_name: machine.1.name_any(),
                    cluster_name: "c".to_owned(),
                    since: None,
                };
                self.write_host(&host.name_any(), hosts, |host| {
                    // The schema's rule.
                    assert!(host.spec.claim.as_ref().is_none_or(|held| held.id == claim.id));
                    host.spec.claim = Some(claim);
                });
            }
            HostMachineStep::GiveBack(host) => {
                self.write_host(&host.name_any(), hosts, |host| host.spec.claim = None);
            }
            HostMachineStep::Start(host, _) => {
                self.started.entry(index).or_default().insert(host.name_any());
            }
        }
    }

    fn write_machine(&mut self, index: usize, version: u64, change: impl FnOnce(&mut HostMachine)) {
        let machine = &mut self.machines[index];
        if machine.0 == version {
            let before = machine.1.spec.clone();
            change(&mut machine.1);
            // The schema's rules: set once.
            assert!(before.claim_id.is_none() || before.claim_id == machine.1.spec.claim_id);
            assert!(before.host_name.is_none() || before.host_name == machine.1.spec.host_name);
            self.clock += 1;
            machine.0 = self.clock;
        }
    }

    fn write_host(&mut self, name: &str, seen: &[Versioned<Host>], change: impl FnOnce(&mut Host)) {
        let version = seen.iter().find(|host| host.1.name_any() == name).map(|host| host.0);
        if let Some(host) = self.hosts.iter_mut().find(|host| host.1.name_any() == name)
            && Some(host.0) == version
        {
            change(&mut host.1);
            self.clock += 1;
            host.0 = self.clock;
        }
    }

    fn check(&self) {
        let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, hosts) in &self.started {
            assert!(hosts.len() == 1, "machine {index} was started on {hosts:?}");
            for host in hosts {
                assert!(owners.insert(host, *index).is_none(), "{host} was started by two machines");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_host_has_two_owners_and_nobody_starves(
        machines in 1_usize..5,
        spare in 0_usize..3,
        schedule in prop::collection::vec((0_usize..5, 0_usize..2, prop::bool::weighted(0.1)), 0..300),
    ) {
        let mut world = World::new(machines, machines + spare);
        let mut memory = vec![[Memory::Nothing, Memory::Nothing]; machines];
        for (machine, manager, dies) in schedule {
            let index = machine % machines;
            if dies {
                memory[index][manager] = Memory::Nothing;
            }
            world.step(index, &mut memory[index][manager]);
            world.check();
        }
        // Then one manager goes on, in peace: everybody gets a host, and what was taken twice is given back.
        for index in (0..machines).cycle().take(machines * 60) {
            world.step(index, &mut memory[index][0]);
        }
        world.check();
        prop_assert_eq!(world.started.len(), machines);
        let claimed = world.hosts.iter().filter(|host| host.1.spec.claim.is_some()).count();
        prop_assert_eq!(claimed, machines);
    }
}
