//! Merges the changes of machines, owner by owner, into one order. Pure.

use capstan_distro::cost::worst;
use capstan_distro::{Change, Cost};
use std::collections::{BTreeMap, BTreeSet};

use super::report::{Field, Machine, Outcome};

const NOT_DRAINED: &str =
    "it is not drained first: no other machine can take its pods, or its drain is switched off";

/// The machines of one owner.
pub(super) struct Owner {
    namespace: String,
    title: String,
    drained: BTreeSet<String>,
    machines: BTreeMap<String, Machine>,
    changes: BTreeMap<String, Vec<Change>>,
    steps: Vec<TimelineStep>,
}

enum TimelineStep {
    Update(String),
    Create,
    Delete(String),
}

impl Owner {
    pub(super) fn new(namespace: &str, title: &str, drained: &BTreeSet<String>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            title: title.to_owned(),
            drained: drained.clone(),
            machines: BTreeMap::new(),
            changes: BTreeMap::new(),
            steps: vec![],
        }
    }

    fn insert(&mut self, name: &str, outcome: Outcome, changes: &[Change]) {
        let machine = Machine {
            namespace: self.namespace.clone(),
            name: name.to_owned(),
            owner: self.title.clone(),
            outcome,
            step: None,
            kept: true,
            fields: changes.iter().map(Field::from).collect(),
            notes: vec![],
        };
        self.machines.insert(name.to_owned(), machine);
        self.changes.insert(name.to_owned(), changes.to_vec());
    }

    /// Adds a machine that does not change.
    pub(super) fn untouched(&mut self, name: &str) {
        self.insert(name, Outcome::Nothing, &[]);
    }

    /// Adds a machine whose owner refuses the changes. Without changes for this machine, nothing is refused.
    pub(super) fn refused(&mut self, name: &str, changes: &[Change]) {
        let outcome = if worst(changes) == Cost::Nothing { Outcome::Nothing } else { Outcome::Refused };
        self.insert(name, outcome, changes);
    }

    /// Adds a machine that these fields change. Changes that need a turn in the rollout get their position later.
    pub(super) fn machine(&mut self, name: &str, changes: &[Change]) {
        let at_once = changes.iter().filter(|change| change.cost <= Cost::Live);
        self.insert(name, worst(at_once).into(), changes);
    }

    pub(super) fn update(&mut self, name: &str) {
        self.steps.push(TimelineStep::Update(name.to_owned()));
    }

    pub(super) fn create(&mut self) {
        self.steps.push(TimelineStep::Create);
    }

    pub(super) fn delete(&mut self, name: &str) {
        self.steps.push(TimelineStep::Delete(name.to_owned()));
    }

    /// Of so many that are made and deleted, those beyond the other are a change of number; the rest are replaced.
    fn into_machines(mut self, first: usize) -> (Vec<Machine>, usize) {
        let count = |is: fn(&TimelineStep) -> bool| self.steps.iter().filter(|step| is(step)).count();
        let (made, gone) = (
            count(|step| matches!(step, TimelineStep::Create)),
            count(|step| matches!(step, TimelineStep::Delete(_))),
        );
        let (mut fewer, mut more) = (gone.saturating_sub(made), made.saturating_sub(gone));
        let steps = std::mem::take(&mut self.steps);
        let next = first + steps.len();
        for (step, turn) in steps.into_iter().zip(first..) {
            match step {
                TimelineStep::Update(name) => self.set_step(&name, turn),
                TimelineStep::Create if more == 0 => {}
                TimelineStep::Create => {
                    more -= 1;
                    let name = format!("(new {})", made - gone - more);
                    self.insert(&name, Outcome::Create, &[]);
                    self.end(&name, turn, Outcome::Create);
                }
                TimelineStep::Delete(name) => {
                    let is_replaced = self.changes.get(&name).is_some_and(|all| worst(all) == Cost::Replace);
                    let outcome = if fewer > 0 && !is_replaced { Outcome::Delete } else { Outcome::Replace };
                    fewer -= usize::from(outcome == Outcome::Delete);
                    self.end(&name, turn, outcome);
                }
            }
        }
        (self.machines.into_values().collect(), next)
    }

    fn set_step(&mut self, name: &str, turn: usize) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        let cost = self.changes.get(name).map_or(Cost::Nothing, worst);
        (machine.step, machine.outcome) = (Some(turn), cost.into());
        if cost == Cost::DrainAndRestart && !self.drained.contains(name) {
            machine.outcome = Outcome::Restart;
            for field in machine.fields.iter_mut().filter(|it| it.cost == Some(cost.name())) {
                field.cost = Some(Cost::Restart.name());
            }
            machine.notes.push(NOT_DRAINED.to_owned());
        }
    }

    fn end(&mut self, name: &str, turn: usize, outcome: Outcome) {
        if let Some(machine) = self.machines.get_mut(name) {
            (machine.step, machine.outcome, machine.kept) = (Some(turn), outcome, false);
        }
    }
}

/// All owners, in the order in which they were added: first those that others wait for.
#[derive(Default)]
pub(super) struct Timeline {
    owners: Vec<Owner>,
    others: Vec<Machine>,
}

impl Timeline {
    pub(super) fn add(&mut self, owner: Owner) {
        self.owners.push(owner);
    }

    /// Adds a machine that the user changes directly.
    pub(super) fn by_hand(&mut self, machine: Machine) {
        self.others.push(machine);
    }

    /// All machines, each once.
    pub(super) fn into_machines(self) -> Vec<Machine> {
        let (mut all, mut first): (Vec<Machine>, usize) = (vec![], 1);
        for owner in self.owners {
            let (machines, next) = owner.into_machines(first);
            all.extend(machines);
            first = next;
        }
        for other in self.others {
            let same = |machine: &&mut Machine| {
                (&machine.namespace, &machine.name) == (&other.namespace, &other.name)
            };
            match all.iter_mut().find(same) {
                None => all.push(other),
                Some(machine) => {
                    machine.outcome = machine.outcome.max(other.outcome);
                    machine.fields.extend(other.fields);
                    machine.notes.extend(other.notes);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(cost: Cost) -> Vec<Change> {
        vec![Change::new("spec.x", cost, "because")]
    }

    fn owner() -> Owner {
        let drained = BTreeSet::from(["a".to_owned()]);
        let mut owner = Owner::new("ns", "MachineDeployment/md", &drained);
        owner.machine("a", &changes(Cost::DrainAndRestart));
        owner.machine("b", &changes(Cost::DrainAndRestart));
        owner.machine("c", &changes(Cost::Live));
        owner
    }

    fn into_machines(owner: Owner) -> Vec<(String, Outcome, Option<usize>)> {
        let mut timeline = Timeline::default();
        timeline.add(owner);
        timeline
            .into_machines()
            .into_iter()
            .map(|machine| (machine.name, machine.outcome, machine.step))
            .collect()
    }

    fn entry(
        name: &str,
        outcome: Outcome,
        step: impl Into<Option<usize>>,
    ) -> (String, Outcome, Option<usize>) {
        (name.to_owned(), outcome, step.into())
    }

    #[test]
    fn changes_in_steps_wait_and_the_rest_happens_at_once() {
        let mut updated = owner();
        updated.update("b");
        updated.update("a");
        let expected = [
            entry("a", Outcome::DrainAndRestart, 2),
            // Nothing is drained there, so nothing says that it is.
            entry("b", Outcome::Restart, 1),
            entry("c", Outcome::Live, None),
        ];
        assert_eq!(into_machines(updated), expected);
        let mut notes = owner();
        notes.update("b");
        notes.update("a");
        let (machines, next) = notes.into_machines(1);
        assert_eq!((machines[0].notes.len(), machines[1].notes.len(), next), (0, 1, 3));
        let costs: Vec<_> = machines.iter().map(|machine| machine.fields[0].cost).collect();
        assert_eq!(costs, [Some("drain and restart"), Some("restart"), Some("live")]);
    }

    #[test]
    fn what_is_made_and_deleted_is_a_number_or_a_replacement() {
        let mut fewer = owner();
        fewer.delete("a");
        assert_eq!(into_machines(fewer)[0], entry("a", Outcome::Delete, 1));
        let mut more = owner();
        more.create();
        more.create();
        let told_more = into_machines(more);
        assert_eq!(told_more[0], entry("(new 1)", Outcome::Create, 1));
        assert_eq!(told_more[1], entry("(new 2)", Outcome::Create, 2));
        let mut replaced = owner();
        replaced.create();
        replaced.delete("a");
        assert_eq!(into_machines(replaced)[0], entry("a", Outcome::Replace, 2));
    }

    #[test]
    fn a_machine_is_listed_once() {
        let mut timeline = Timeline::default();
        timeline.add(owner());
        let mut other = Owner::new("ns", "x", &BTreeSet::new());
        other.machine("c", &changes(Cost::Live));
        let (mut machines, _) = other.into_machines(1);
        machines[0].outcome = Outcome::Restart;
        timeline.by_hand(machines.remove(0));
        let all = timeline.into_machines();
        assert_eq!((all.len(), all[2].outcome, all[2].fields.len()), (3, Outcome::Restart, 2));
        let mut refused = Owner::new("ns", "x", &BTreeSet::new());
        refused.refused("a", &changes(Cost::Restart));
        refused.refused("b", &[]);
        assert_eq!(
            into_machines(refused),
            [entry("a", Outcome::Refused, None), entry("b", Outcome::Nothing, None)]
        );
    }
}
