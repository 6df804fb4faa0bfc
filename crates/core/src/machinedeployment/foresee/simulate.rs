//! A rollout on copies of the objects, to its end. Pure.

use capstan_api::conditions::{is_true, types};
use capstan_api::core::{Machine, MachineNodeReference, MachineSet, RolloutStrategyType};
use capstan_controller::owners;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};

use super::{Foresight, RolloutStep, World};
use crate::machinedeployment::rollout::{self, Problem, strategy};
use crate::machineset::desired::{self, Clones, clone_reference};
use crate::machineset::hand_over::{handed_over, is_received};
use crate::machineset::machine::is_updating;
use crate::machineset::names::in_place;
use crate::machineset::scale::{self, Scale};
use crate::machineset::status::whole;

/// Rounds in which something happens, for each machine there is or should be. Far more than any rollout takes.
const ROUNDS: usize = 8;

struct Simulation<'a> {
    world: &'a World,
    sets: Vec<MachineSet>,
    machines: Vec<Machine>,
    unavailable: BTreeSet<String>,
    made: usize,
    steps: Vec<RolloutStep>,
}

pub(super) fn simulate(world: &World, movable: &BTreeSet<String>) -> Result<Foresight, Problem> {
    let mut simulation = Simulation {
        world,
        sets: counted(&world.sets, &world.machines, &unavailable(&world.machines)),
        machines: world.machines.clone(),
        unavailable: unavailable(&world.machines),
        made: 0,
        steps: vec![],
    };
    let desired = world.deployment.spec.replicas.and_then(|number| usize::try_from(number).ok());
    let rounds = ROUNDS * (1 + desired.unwrap_or(1) + world.machines.len());
    let is_over = (0..rounds).try_fold(false, |is_over, _| match is_over {
        true => Ok(true),
        false => simulation.reconcile(movable).map(|progress| !progress),
    })?;
    let stops = simulation.stops(is_over);
    Ok(Foresight {
        handed_down: simulation.handed_down(),
        steps: simulation.steps,
        stops,
        ..Foresight::default()
    })
}

/// Names of the machines that are not available.
pub(super) fn unavailable(machines: &[Machine]) -> BTreeSet<String> {
    let is_unavailable = |machine: &&Machine| !is_true(*machine, types::AVAILABLE);
    machines.iter().filter(is_unavailable).map(Machine::name_any).collect()
}

/// MachineSets that have counted their machines.
pub(super) fn counted(
    sets: &[MachineSet],
    machines: &[Machine],
    unavailable: &BTreeSet<String>,
) -> Vec<MachineSet> {
    let counted = |set: &MachineSet| {
        let own: Vec<&Machine> =
            machines.iter().filter(|machine| owners::is_controlled_by(&machine.metadata, set)).collect();
        let is_available =
            |machine: &&&Machine| !unavailable.contains(&machine.name_any()) && !is_updating(machine);
        let available = own.iter().filter(is_available).count();
        let mut set = set.clone();
        let status = set.status.get_or_insert_default();
        (status.replicas, status.available_replicas) = (Some(whole(own.len())), Some(whole(available)));
        set
    };
    sets.iter().map(counted).collect()
}

impl Simulation<'_> {
    /// One reconcile of the MachineDeployment, and one of each MachineSet. Says whether anything happened.
    fn reconcile(&mut self, movable: &BTreeSet<String>) -> Result<bool, Problem> {
        let draft = rollout::draft(&self.world.observed(&self.sets, &self.machines))?;
        let decision = draft.decide(movable);
        let mut progress = false;
        for wanted in decision.sets {
            progress |= self.write(wanted);
        }
        let names: Vec<String> = self.sets.iter().map(MachineSet::name_any).collect();
        for name in names {
            progress |= self.receive(&name);
            progress |= self.scale(&name);
        }
        self.sets = counted(&self.sets, &self.machines, &self.unavailable);
        Ok(progress)
    }

    fn write(&mut self, mut wanted: MachineSet) -> bool {
        let name = wanted.name_any();
        if let Some(set) = self.sets.iter_mut().find(|set| set.name_any() == name) {
            let is_same = set.spec == wanted.spec && set.annotations() == wanted.annotations();
            *set = wanted;
            return !is_same;
        }
        wanted.metadata.uid = Some(name);
        wanted.metadata.creation_timestamp = Some(Time(self.world.now));
        self.sets.push(wanted);
        true
    }

    fn set(&self, name: &str) -> Option<MachineSet> {
        self.sets.iter().find(|set| set.name_any() == name).cloned()
    }

    /// Machines that are counted get their new spec, and reach it.
    fn receive(&mut self, name: &str) -> bool {
        let Some(set) = self.set(name) else { return false };
        let mut progress = false;
        for machine in &mut self.machines {
            if owners::is_controlled_by(&machine.metadata, &set) && is_received(&set, machine) {
                machine.spec = desired::updated(&set, machine).spec;
                let annotations = machine.annotations_mut();
                annotations.remove(in_place::PENDING_ACKNOWLEDGE_MOVE);
                annotations.remove(in_place::UPDATE_IN_PROGRESS);
                self.unavailable.remove(&machine.name_any());
                progress = true;
            }
        }
        progress
    }

    fn scale(&mut self, name: &str) -> bool {
        let Some(set) = self.set(name) else { return false };
        let own = |machine: &&Machine| owners::is_controlled_by(&machine.metadata, &set);
        let machines: Vec<Machine> = self.machines.iter().filter(own).cloned().collect();
        match scale::decide(&set, &machines, self.world.now) {
            Scale::Stay | Scale::Held => false,
            Scale::Create(number) => {
                (0..number).for_each(|_| self.make(&set));
                self.steps.push(RolloutStep::Create(number));
                true
            }
            Scale::Delete(names) => self.delete(names),
            Scale::HandOver { to, hand_over, delete } => {
                let deleted = self.delete(delete);
                let Some(target) = self.set(&to) else { return deleted };
                for machine in self.machines.iter_mut().filter(|m| hand_over.contains(&m.name_any())) {
                    if let Some(metadata) = handed_over(machine, &set, &target) {
                        machine.metadata = metadata;
                    }
                }
                let is_some = !hand_over.is_empty();
                if is_some {
                    self.steps.push(RolloutStep::Update(hand_over));
                }
                deleted || is_some
            }
        }
    }

    fn make(&mut self, set: &MachineSet) {
        self.made += 1;
        let name = format!("(new {})", self.made);
        let spec = &set.spec.template.spec;
        let clones = Clones {
            bootstrap: spec.bootstrap.config_ref.as_ref().map(|reference| clone_reference(reference, &name)),
            infrastructure: clone_reference(&spec.infrastructure_ref, &name),
        };
        let mut machine = desired::new_machine(set, &name, clones);
        machine.metadata.creation_timestamp = Some(Time(self.world.now));
        machine.status.get_or_insert_default().node_ref = Some(MachineNodeReference { name });
        self.machines.push(machine);
    }

    fn delete(&mut self, names: Vec<String>) -> bool {
        let before = self.machines.len();
        self.machines.retain(|machine| !names.contains(&machine.name_any()));
        let is_some = self.machines.len() < before;
        if is_some {
            self.steps.push(RolloutStep::Delete(names));
        }
        is_some
    }

    /// Why the end that was reached is not the one that was asked for.
    fn stops(&self, is_over: bool) -> Option<String> {
        let deployment = &self.world.deployment;
        let wanted = deployment.spec.replicas.unwrap_or(1);
        let is_new = |set: &&MachineSet| {
            super::super::decide::select::differences(&set.spec.template, &deployment.spec.template).is_none()
        };
        let in_new: i32 =
            self.sets.iter().filter(is_new).filter_map(|set| set.status.as_ref()?.replicas).sum();
        let all = self.machines.len();
        if is_over && in_new == wanted && whole(all) == wanted {
            return None;
        }
        if deployment.spec.paused == Some(true) {
            return Some("spec.paused holds up the rollout".to_owned());
        }
        if strategy(deployment) == RolloutStrategyType::OnDelete {
            return Some("with OnDelete a machine is not updated until its Machine is deleted".to_owned());
        }
        let ill: Vec<&str> = self.unavailable.iter().map(String::as_str).collect();
        Some(match ill.is_empty() {
            true => "it would not come to its end by itself".to_owned(),
            false => format!("it waits for these to be available: {}", ill.join(", ")),
        })
    }

    /// The current and the future spec of machines that stay.
    fn handed_down(&self) -> BTreeMap<String, (Machine, Machine)> {
        let desired = |sets: &[MachineSet], owned: &Machine, current: &Machine| {
            let set = sets.iter().find(|set| owners::is_controlled_by(&owned.metadata, *set))?;
            Some(desired::synced(set, current))
        };
        let both = self.machines.iter().filter_map(|after| {
            let before = self.world.machines.iter().find(|before| before.name_any() == after.name_any())?;
            let pair = (desired(&self.world.sets, before, before)?, desired(&self.sets, after, before)?);
            Some((after.name_any(), pair))
        });
        both.collect()
    }
}
