//! The pure part of a reconcile for a whole fleet, for benchmarks.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Machine;
use capstan_artifacts::{Arch, ArtifactRef, Catalog, Source};
use capstan_controller::Knowledge;
use capstan_controller::etcd::{Member, Members};
use capstan_controller::secrets::{self, Purpose};
use capstan_distro::{Endpoint, Network, SecretFiles};
use capstan_plan::Digest;
use capstan_planner::budget::Budgets;
use capstan_planner::facts::{EtcdView, MachineFacts, NodeView, PlanFacts, Progress};
use capstan_planner::machines::{self, Limits, MachineStep, Wanted};
use capstan_planner::plans::{Elected, Gate, Outcome, View, gate};
use jiff::Timestamp;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use crate::certificates::{Keys, NEEDED, Separation, contents};
use crate::observe;
use crate::plans::{Begun, Decision, Materials, Shelf, Written, decide, merged, prepare, seal};

const VERSION: &str = "v1.36.0+k3s1";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// An observed cluster for benchmarks: machines with their configs, and the plans they have applied.
pub struct Fleet {
    owner: CapstanControlPlane,
    endpoint: Endpoint,
    network: Network,
    keys: Keys,
    catalog: Catalog,
    objects: Vec<(Machine, CapstanConfig)>,
    facts: Vec<MachineFacts>,
    etcd: EtcdView,
    cluster: Begun,
    budgets: Budgets,
    now: Timestamp,
}

impl Fleet {
    /// A fleet with this number of servers and workers, all up to date.
    ///
    /// # Errors
    /// If keys cannot be generated, or a plan cannot be rendered.
    pub fn new(servers: usize, workers: usize) -> Result<Self> {
        let now = Timestamp::now();
        let mut found = BTreeMap::new();
        for purpose in NEEDED {
            let data = contents(purpose, now)?;
            found.insert(purpose, secrets::build("default", "c", Purpose::secret_name(purpose, "c"), data));
        }
        let mut fleet = Self {
            owner: serde_json::from_value(json!({
                "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "CapstanControlPlane",
                "metadata": {"name": "cp", "namespace": "default"},
                "spec": {"replicas": servers, "version": VERSION, "machineTemplate": {"spec": {"infrastructureRef": {
                    "kind": "HostMachineTemplate", "name": "hosts", "apiGroup": "infrastructure.cluster.x-k8s.io"}}}},
            }))?,
            endpoint: Endpoint { host: "10.0.0.10".to_owned(), port: 6443 },
            network: Network::default(),
            keys: Keys::read(&found, "c", Separation::Complete)?,
            catalog: Catalog::default().with(
                "k3s",
                VERSION,
                Arch::Amd64,
                ArtifactRef {
                    sha256: Digest::of(b"k3s"),
                    size: 3,
                    sources: vec![Source { url: "https://plane.example/k3s".to_owned(), ca: None }],
                },
            ),
            objects: Vec::new(),
            facts: Vec::new(),
            budgets: Budgets::default(),
            etcd: EtcdView::Known(Members { members: (0..servers).map(member).collect(), leader: Some(1) }),
            cluster: Begun { elected: Some(Elected { name: name(0), id: id(0) }), initialized: true },
            now,
        };
        for number in 0..servers + workers {
            let objects = objects(number)?;
            let facts = MachineFacts { control_plane: number < servers, ..facts(&objects, now) };
            fleet.objects.push(objects);
            fleet.facts.push(facts);
            fleet.carry_out(number)?;
        }
        // The first server has others that it could join by now.
        for number in 0..servers {
            fleet.carry_out(number)?;
        }
        Ok(fleet)
    }

    /// The same fleet after the inputs of every plan have changed.
    #[must_use]
    pub fn outdated(mut self) -> Self {
        for plan in self.facts.iter_mut().filter_map(|facts| facts.plan.as_mut()) {
            plan.inputs = "something else".to_owned();
        }
        self
    }

    /// Decides about all machines as one reconcile does: creations, deletions and changes, the plan of each machine,
    /// whether it may be written now, and whether its gate may be opened. Returns the number of plans to write.
    ///
    /// # Errors
    /// If a plan cannot be rendered.
    pub fn decide(&self) -> Result<usize> {
        let servers: Vec<MachineFacts> =
            self.facts.iter().filter(|facts| facts.control_plane).cloned().collect();
        let wanted = Wanted {
            replicas: servers.len(),
            domains: Vec::new(),
            begun: None,
            impossible: Vec::new(),
            may_replace: false,
            initialized: true,
            volumes: &Knowledge::default(),
            endpoint: &self.endpoint.host,
            etcd: &self.etcd,
            exhausted: BTreeSet::new(),
            spare: Knowledge::default(),
            remediation: Limits::default(),
            now: Timestamp::UNIX_EPOCH,
        };
        let step = machines::decide(&servers, &wanted);
        let mut writes = usize::from(step != MachineStep::Nothing);
        let view =
            View { etcd: &self.etcd, budgets: &self.budgets, begun: true, api_responds: true, now: self.now };
        for index in 0..self.facts.len() {
            let is_written = matches!(self.decision(index)?, Decision::Write(_));
            let gate = gate(&self.facts[index], &self.facts, &view);
            writes += usize::from(is_written || gate != Gate::Leave);
        }
        Ok(writes)
    }

    fn decision(&self, index: usize) -> Result<Decision> {
        let (machine, config) = &self.objects[index];
        let materials = Materials {
            owner: &self.owner,
            endpoint: &self.endpoint,
            network: &self.network,
            keys: &self.keys,
            shelf: Shelf { catalog: &self.catalog, spare: None },
            budgets: &self.budgets,
            now: self.now,
        };
        let prepared = prepare(&materials, &self.cluster, (machine, config), &self.facts, index)
            .map_err(|outcome| format!("{outcome:?}"))?;
        let merged = merged(machine, config, None).map_err(|outcome| format!("{outcome:?}"))?;
        let files = SecretFiles::new();
        match decide(&materials, &prepared, (machine, config), &merged, &self.facts, index, &files) {
            Decision::Tell(Outcome::Refused { field, message }) => Err(format!("{field}: {message}").into()),
            decision => Ok(decision),
        }
    }

    /// Marks the plan of a machine, if it gets one, as applied.
    fn carry_out(&mut self, index: usize) -> Result<()> {
        let Decision::Write(written) = self.decision(index)? else { return Ok(()) };
        let Written { rendered, record, revision, .. } = *written;
        let sealed = seal(&rendered, &name(index), &id(index), revision, &self.keys, self.now)?;
        self.facts[index].plan = Some(PlanFacts {
            id: sealed.id(),
            epoch: sealed.plan().epoch,
            inputs: rendered.fingerprint.whole.to_string(),
            expires: sealed.plan().expires,
            sound: true,
            is_open: true,
            cancelled: None,
            drain_since: None,
            record,
            programs: capstan_distro::programs(sealed.plan()).cloned().collect(),
            agent: sealed.plan().agent.clone(),
            progress: Progress::Applied,
        });
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("machine-{number:04}")
}

fn id(number: usize) -> String {
    format!("id-{number:04}")
}

fn member(number: usize) -> Member {
    Member {
        id: number as u64 + 1,
        name: format!("{}-{number:08x}", name(number)),
        is_healthy: true,
        ..Member::default()
    }
}

fn objects(number: usize) -> Result<(Machine, CapstanConfig)> {
    let name = name(number);
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": name},
        "spec": {
            "clusterName": "c", "version": VERSION, "providerID": format!("host:///{name}"),
            "bootstrap": {"configRef": {
                "kind": "CapstanConfig", "name": name, "apiGroup": "bootstrap.cluster.x-k8s.io"}},
            "infrastructureRef": {
                "kind": "HostMachine", "name": name, "apiGroup": "infrastructure.cluster.x-k8s.io"},
        },
    });
    let config = json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig",
        "metadata": {"name": name, "annotations": {"capstan.dev/machine-id": id(number)}},
        "spec": {"settings": {"debug": "true"}},
    });
    Ok((serde_json::from_value(machine)?, serde_json::from_value(config)?))
}

fn facts((machine, config): &(Machine, CapstanConfig), now: Timestamp) -> MachineFacts {
    MachineFacts {
        has_node: true,
        node: Knowledge::Known(NodeView { ready: true, ..NodeView::default() }),
        kubelet_version: Some(VERSION.to_owned()),
        created: Some(now),
        ..observe::machine::of(machine, Some(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_that_is_as_it_should_be_is_left_alone() {
        let fleet = Fleet::new(3, 5).expect("a fleet");
        assert_eq!(fleet.decide().expect("plans"), 0);
        assert!(fleet.outdated().decide().expect("plans") > 0);
    }
}
