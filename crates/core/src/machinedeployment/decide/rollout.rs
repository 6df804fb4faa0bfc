//! What every MachineSet of a MachineDeployment should be next. Pure.

use capstan_api::conditions::{get, is_true, types};
use capstan_api::core::{Machine, MachineDeployment, MachineSet, RolloutStrategyType};
use capstan_api::keep;
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

use super::super::names::{DESIRED_REPLICAS, MAX_REPLICAS};
use super::desired::{self, Basis, annotate};
use super::draft_name;
use super::limits::{BadAmount, Limits};
use super::on_delete::on_delete;
use super::plan::{Plan, Set, rolling_update};
use super::proportional::{Share, proportional};
use super::received::Received;
use super::revision;
use super::select::{Selection, select};
use crate::machineset::machine::is_updating;
use crate::machineset::names::in_place;
use crate::machineset::status::whole;

/// Why nothing can be decided.
#[derive(Debug, Error)]
pub(crate) enum Problem {
    #[error("spec.rollout.strategy.rollingUpdate: {0}")]
    Limits(#[from] BadAmount),
    #[error("cannot create a MachineSet when templates do not exist")]
    NoTemplates,
}

/// What a decision is made from.
pub(crate) struct Observed<'a> {
    pub(crate) deployment: &'a MachineDeployment,
    pub(crate) sets: &'a [MachineSet],
    /// Names of MachineSets that belong to others: a new one must have none of them.
    pub(crate) others: &'a [String],
    pub(crate) machines: &'a [Machine],
    pub(crate) templates_exist: bool,
    pub(crate) now: Timestamp,
}

/// What the MachineSets should be.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// In full, the new one first. One without a UID is to be made.
    pub(crate) sets: Vec<MachineSet>,
    /// The revision of the new one.
    pub(crate) revision: Option<String>,
    /// Why, for the log.
    pub(crate) notes: Vec<(String, String)>,
}

/// The MachineSets with all that does not depend on how machines get from one to the other.
#[derive(Debug)]
pub(crate) struct Draft {
    deployment: String,
    limits: Limits,
    strategy: RolloutStrategyType,
    paused: bool,
    selection: Selection,
    received: Received,
    sets: Sets,
}

/// Sorts the MachineSets, makes a new one if it takes one, and hands down what needs no rollout.
pub(crate) fn draft(observed: &Observed<'_>) -> Result<Draft, Problem> {
    let deployment = observed.deployment;
    let limits = Limits::of(deployment)?.passing_over(whole(passed_over(observed).count()));
    let selection = select(deployment, observed.sets.to_vec(), observed.now);
    let paused = deployment.spec.paused == Some(true);
    if selection.new.is_none() && !paused && !observed.templates_exist {
        return Err(Problem::NoTemplates);
    }
    let strategy = strategy(deployment);
    let mut sets = Sets::new(observed, limits, &selection, !paused);
    let received = sets.new.as_ref().map(|new| Received::by(new, observed.machines)).unwrap_or_default();
    if let Some(new) = sets.new.as_mut().filter(|_| !paused && strategy == RolloutStrategyType::RollingUpdate)
    {
        new.spec.replicas = Some(new.spec.replicas.unwrap_or(0) + received.uncounted);
    }
    Ok(Draft { deployment: deployment.name_any(), limits, strategy, paused, selection, received, sets })
}

/// Kept machines that a rollout does not wait for: silent for too long, beyond healing, or held by the user, and not
/// available.
fn passed_over<'a>(observed: &Observed<'a>) -> impl Iterator<Item = &'a Machine> {
    let given_up = [keep::healing::SILENT, keep::healing::EXHAUSTED];
    let is_silent = move |machine: &Machine| {
        get(machine, keep::HEALED_IN_PLACE)
            .is_some_and(|condition| given_up.contains(&condition.reason.as_str()))
    };
    observed.machines.iter().filter(move |machine| {
        let is_waited_for = !is_silent(machine) && !keep::is_held(machine);
        let is_away = !is_true(*machine, types::AVAILABLE) || is_updating(machine);
        keep::is_kept(&machine.spec) && !is_waited_for && is_away
    })
}

impl Draft {
    /// The limits of the rollout.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// The new MachineSet, and the old ones whose Machines might be changed in place to what it says. `None` if no
    /// Machine is to go from one to the other.
    pub(crate) fn candidates(&self) -> Option<(&MachineSet, Vec<&MachineSet>)> {
        let new = self.sets.new.as_ref()?;
        let rolls = !self.paused && self.strategy == RolloutStrategyType::RollingUpdate;
        // It has, or will have, all it needs: what is left over elsewhere goes.
        if !rolls || new.spec.replicas.unwrap_or(0) >= self.limits.desired {
            return None;
        }
        let might = |set: &&MachineSet| {
            self.selection.eligible.contains(&set.name_any()) && count(set, false).replicas > 0
        };
        let old: Vec<&MachineSet> = self.sets.old.iter().filter(might).collect();
        (!old.is_empty()).then_some((new, old))
    }

    /// Decides what the MachineSets should be next. `movable` are those whose Machines can be changed in place.
    pub(crate) fn decide(self, movable: &BTreeSet<String>) -> Decision {
        let Self { deployment, limits, strategy, paused, selection, received, mut sets } = self;
        if paused {
            let rolling = strategy == RolloutStrategyType::RollingUpdate;
            let sizes = sets.proportional(&selection, limits, rolling);
            sets.scale(&sizes);
        } else if sets.new.is_some() {
            let plan = match strategy {
                RolloutStrategyType::RollingUpdate => {
                    let (new, old) = sets.counted(movable);
                    rolling_update(limits, &new, &old)
                }
                RolloutStrategyType::OnDelete => {
                    let (new, old) = sets.counted(&BTreeSet::new());
                    on_delete(limits, &new, &old)
                }
            };
            sets.follow(plan, &received);
        }
        if selection.new.is_none() && !paused {
            sets.notes.push((deployment, selection.reason));
        }
        for set in &mut sets.old {
            desired::allow_creation(set, false, strategy);
        }
        if let Some(new) = &mut sets.new {
            desired::allow_creation(new, true, strategy);
        }
        Decision {
            sets: sets.new.into_iter().chain(sets.old).collect(),
            revision: sets.revision,
            notes: sets.notes,
        }
    }
}

pub(crate) fn strategy(deployment: &MachineDeployment) -> RolloutStrategyType {
    let rollout = deployment.spec.rollout.as_ref();
    rollout.and_then(|r| r.strategy.as_ref()).map_or(RolloutStrategyType::RollingUpdate, |s| s.type_)
}

/// The MachineSets on their way to what they should be.
#[derive(Debug)]
struct Sets {
    new: Option<MachineSet>,
    old: Vec<MachineSet>,
    revision: Option<String>,
    notes: Vec<(String, String)>,
}

impl Sets {
    /// With what is handed down in place. Makes a new one, if there is none and it is wanted.
    fn new(observed: &Observed<'_>, limits: Limits, selection: &Selection, make: bool) -> Self {
        let deployment = observed.deployment;
        let is_taken = |name: &str| {
            observed.others.iter().any(|other| other == name)
                || observed.sets.iter().any(|set| set.name_any() == name)
        };
        let old = selection.old.iter().map(|current| {
            let mut set = desired::machine_set(deployment, limits, &Basis::There(current));
            set.metadata.annotations.get_or_insert_default().extend(revision::of_old(current));
            set
        });
        let (mut new, mut revision) = (None, None);
        if selection.new.is_some() || make {
            let current = selection.new.as_ref();
            let (annotations, number) = revision::of_new(current, &selection.old);
            let basis = match current {
                Some(current) => Basis::There(current),
                None => Basis::Draft(draft_name::suffix(deployment, &number, is_taken)),
            };
            let mut set = desired::machine_set(deployment, limits, &basis);
            set.metadata.annotations.get_or_insert_default().extend(annotations);
            // To be compared with what the Machines say; dropped or renewed in `follow`.
            let counted = current.and_then(|set| set.annotations().get(in_place::ACKNOWLEDGED_MOVE).cloned());
            if let Some(counted) = counted {
                annotate(&mut set, in_place::ACKNOWLEDGED_MOVE, counted);
            }
            (new, revision) = (Some(set), Some(number));
        }
        Self { new, old: old.collect(), revision, notes: vec![] }
    }

    /// As the arithmetic wants them. There is a new one.
    fn counted(&self, movable: &BTreeSet<String>) -> (Set, Vec<Set>) {
        let counted = |set: &MachineSet| count(set, movable.contains(&set.name_any()));
        (self.new.as_ref().map(counted).unwrap_or_default(), self.old.iter().map(counted).collect())
    }

    fn follow(&mut self, plan: Plan, received: &Received) {
        if let Some(new) = &mut self.new {
            new.metadata.annotations.get_or_insert_default().remove(in_place::ACKNOWLEDGED_MOVE);
            if let Some(text) = received.text() {
                annotate(new, in_place::ACKNOWLEDGED_MOVE, text);
            }
            if !plan.moves.is_empty() {
                let mut names = plan.moves.clone();
                names.sort();
                annotate(new, in_place::RECEIVE_MACHINES_FROM, names.join(","));
            }
            let name = new.name_any();
            for set in self.old.iter_mut().filter(|set| plan.moves.contains(&set.name_any())) {
                annotate(set, in_place::MOVE_MACHINES_TO, name.clone());
            }
        }
        self.scale(&plan.replicas);
        self.notes = plan.notes;
    }

    fn scale(&mut self, sizes: &BTreeMap<String, i32>) {
        for set in self.new.iter_mut().chain(&mut self.old) {
            if let Some(size) = sizes.get(&set.name_any()) {
                set.spec.replicas = Some(*size);
            }
        }
    }

    fn proportional(&self, selection: &Selection, limits: Limits, rolling: bool) -> BTreeMap<String, i32> {
        // Compared with the replicas in their spec, not with the new ones.
        let machines = selection.old.iter().chain(&selection.new).map(|set| count(set, false).replicas).sum();
        let share = |set: &MachineSet| {
            let number = |key: &str| set.annotations().get(key).and_then(|value| value.parse().ok());
            Share {
                set: count(set, false),
                of: number(MAX_REPLICAS).unwrap_or(machines),
                desired: number(DESIRED_REPLICAS),
            }
        };
        let old: Vec<Share> = selection.old.iter().map(share).collect();
        proportional(limits, rolling, selection.new.as_ref().map(share).as_ref(), &old)
    }
}

fn count(set: &MachineSet, movable: bool) -> Set {
    let status = set.status.clone().unwrap_or_default();
    Set {
        name: set.name_any(),
        created: set.metadata.creation_timestamp.as_ref().map(|created| created.0),
        spec: set.spec.replicas.unwrap_or(0),
        replicas: status.replicas.unwrap_or(0),
        available: status.available_replicas.unwrap_or(0),
        movable,
    }
}

/// Whether all machines are there, up to date and available, and nothing newer is asked for.
pub(crate) fn is_complete(deployment: &MachineDeployment, sets: &[MachineSet]) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let desired = deployment.spec.replicas.unwrap_or(1);
    let sum = |field: fn(&MachineSet) -> Option<i32>| sets.iter().filter_map(field).sum::<i32>();
    let counts = [
        sum(|set| set.status.as_ref()?.replicas),
        sum(|set| set.status.as_ref()?.available_replicas),
        sum(|set| set.status.as_ref()?.up_to_date_replicas),
    ];
    counts.iter().all(|count| *count == desired)
        && status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0)
}

/// Whether an old MachineSet has done its work: no machines, none asked for, and all of that seen.
pub(crate) fn is_spent(set: &MachineSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    let empty = status.replicas.unwrap_or(0) == 0 && set.spec.replicas.unwrap_or(0) == 0;
    let seen = status.observed_generation.unwrap_or(0) >= set.metadata.generation.unwrap_or(0);
    empty && seen && set.metadata.deletion_timestamp.is_none()
}

/// How many machines there are in all.
pub(crate) fn replicas(sets: &[MachineSet]) -> i32 {
    let machines = sets.iter().filter_map(|set| set.status.as_ref()?.replicas);
    machines.map(i64::from).sum::<i64>().try_into().unwrap_or(whole(usize::MAX))
}

#[cfg(test)]
#[path = "tests/decide.rs"]
mod tests;
