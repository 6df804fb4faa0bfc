//! What is compared before and after a turn of the manager: what it did must be what it may do.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use capstan_api::core::Machine;
use kube::ResourceExt;

use crate::world::{Scene, Workload, is_leaving, is_server};

pub(crate) struct Seen {
    servers: BTreeMap<String, Sight>,
    workers: BTreeMap<String, Sight>,
    /// Plans whose gate is open and which restart what runs, by machine.
    restarts: BTreeMap<String, String>,
    /// How many servers there should be.
    replicas: usize,
    has_begun: bool,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sight {
    /// UIDs of the Machine, its HostMachine and its CapstanConfig.
    identity: [Option<String>; 3],
    leaving: bool,
    plan: String,
    /// How many steps of healing have begun.
    healing: u64,
    /// The revision of its plan.
    revision: u64,
}

impl Seen {
    pub(crate) fn of(scene: &Scene) -> Result<Self> {
        let owner = scene.control_plane.as_ref();
        let replicas = owner.and_then(|owner| owner.spec.replicas).unwrap_or(1);
        let mut seen = Self {
            servers: BTreeMap::new(),
            workers: BTreeMap::new(),
            restarts: BTreeMap::new(),
            replicas: usize::try_from(replicas)?,
            has_begun: scene.noted("capstan.dev/initialized").is_some(),
        };
        for machine in &scene.machines {
            let name = machine.name_any();
            let plan = scene.plan(&name)?;
            let described = match &plan {
                None => "-".to_owned(),
                Some(plan) => {
                    let report = scene.reports.get(&name).and_then(|report| report.status.as_ref()?.phase);
                    let applied = if scene.is_applied(&name, plan) { "=" } else { "" };
                    let gate = if scene.is_open(&name, plan)? { "" } else { " closed" };
                    format!("{}{applied}{gate} {report:?}", plan.id().revision().get())
                }
            };
            let sight = Sight {
                identity: [
                    machine.uid(),
                    scene.hosts.get(&name).and_then(ResourceExt::uid),
                    scene.configs.get(&name).and_then(ResourceExt::uid),
                ],
                leaving: is_leaving(machine),
                plan: described,
                healing: healing(machine),
                revision: plan.as_ref().map(|plan| plan.id().revision().get()).unwrap_or_default(),
            };
            let machines = if is_server(machine) { &mut seen.servers } else { &mut seen.workers };
            machines.insert(name.clone(), sight);
            let Some(plan) = plan else { continue };
            let attempt = &scene.record(&name)["attempt"];
            ensure!(attempt.as_u64().is_some_and(|n| n <= 8), "{name}: tried {attempt} times");
            if is_server(machine) && scene.restarts(&name) && scene.is_open(&name, &plan)? {
                seen.restarts.insert(name, plan.id().digest().to_string());
            }
        }
        Ok(seen)
    }

    /// Machines on which a step of healing has begun since.
    pub(crate) fn healing_since(&self, before: &Self) -> Vec<String> {
        let all = self.servers.iter().chain(&self.workers);
        let steps = |name: &str| {
            let was = before.servers.get(name).or_else(|| before.workers.get(name));
            was.map(|was| was.healing).unwrap_or_default()
        };
        all.filter(|(name, now)| now.healing > steps(name)).map(|(name, _)| name.clone()).collect()
    }

    /// Servers that were let through to restart since.
    pub(crate) fn let_through_since(&self, before: &Self) -> Vec<String> {
        let is_new = |(name, plan): &(&String, &String)| before.restarts.get(*name) != Some(*plan);
        self.restarts.iter().filter(is_new).map(|(name, _)| name.clone()).collect()
    }

    /// Servers that nobody deletes.
    pub(crate) fn staying_servers(&self) -> impl Iterator<Item = String> {
        self.servers.iter().filter(|(_, sight)| !sight.leaving).map(|(name, _)| name.clone())
    }

    /// Whether no machine was told anything else.
    pub(crate) fn has_same_plans(&self, before: &Self) -> bool {
        let revisions = |seen: &Self| -> Vec<(String, u64)> {
            let all = seen.servers.iter().chain(&seen.workers);
            all.map(|(name, sight)| (name.clone(), sight.revision)).collect()
        };
        revisions(self) == revisions(before)
    }

    /// Whether the cluster has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// For people who read what happened.
    pub(crate) fn summary(&self) -> String {
        let one = |(name, sight): (&String, &Sight)| {
            format!("{name}({}{})", sight.plan, if sight.leaving { " leaving" } else { "" })
        };
        let all: Vec<String> = self.servers.iter().chain(&self.workers).map(one).collect();
        all.join(" ")
    }

    /// What the manager did between is what it may do.
    pub(crate) fn follows(
        &self,
        before: &Self,
        unwanted: &BTreeSet<String>,
        workload: &Workload,
    ) -> Result<()> {
        self.keeps_machines(before, unwanted)?;
        let there = before.servers.values().filter(|was| !was.leaving).count();
        for name in self.servers.keys().filter(|name| !before.servers.contains_key(*name)) {
            ensure!(there < before.replicas, "{name} was made although there were {there}");
            ensure!(
                !before.has_begun || workload.is_whole(),
                "{name} was made, which raises the majority, while a member of etcd was away"
            );
        }
        for (name, plan) in &self.restarts {
            if before.restarts.get(name) != Some(plan) {
                ensure!(workload.could_spare(name), "{name} may restart, and the others are no majority");
            }
        }
        Ok(())
    }

    /// Nobody is replaced, or goes, unless there are too many or somebody asked for it.
    fn keeps_machines(&self, before: &Self, unwanted: &BTreeSet<String>) -> Result<()> {
        let staying = before.servers.values().filter(|was| !was.leaving).count();
        let mut surplus = staying.saturating_sub(before.replicas.max(1));
        for (name, was) in &before.servers {
            let now = self.servers.get(name);
            if now.is_some_and(|now| !now.leaving) {
                ensure!(now.map(|now| &now.identity) == Some(&was.identity), "{name} was replaced");
                continue;
            }
            if was.leaving {
                continue;
            }
            if !unwanted.contains(name) {
                ensure!(surplus > 0, "{name} goes, and nobody asked for it");
                surplus -= 1;
            }
        }
        for (name, was) in &before.workers {
            let identity = self.workers.get(name).filter(|now| !now.leaving).map(|now| &now.identity);
            ensure!(identity == Some(&was.identity), "worker {name} was replaced");
        }
        Ok(())
    }
}

/// How many steps of healing have begun on a machine, since it was found ill.
fn healing(machine: &Machine) -> u64 {
    let text = machine.annotations().get("capstan.dev/healing");
    let record: Option<serde_json::Value> = text.map(|text| serde_json::from_str(text).unwrap());
    record.and_then(|record| record["active"]["begun"].as_u64()).unwrap_or_default()
}
