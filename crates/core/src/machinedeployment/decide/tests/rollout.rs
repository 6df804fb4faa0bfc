//! Whole rollouts against a small world of MachineSets that do as they are told, late and in the worst way.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Machine {
    id: usize,
    available: bool,
    /// Moved here, and not counted in `spec` yet.
    unacknowledged: bool,
}

#[derive(Clone, Debug)]
struct Sim {
    name: String,
    age: i64,
    spec: i32,
    movable: bool,
    machines: Vec<Machine>,
    /// What was last told in status: number of machines, and of available ones.
    reported: (i32, i32),
}

impl Sim {
    fn new(name: String, age: i64, machines: Vec<Machine>) -> Self {
        let spec = count(machines.len());
        let mut sim = Self { name, age, spec, movable: false, machines, reported: (0, 0) };
        sim.report();
        sim
    }

    fn report(&mut self) {
        self.reported = (count(self.machines.len()), self.available());
    }

    fn available(&self) -> i32 {
        count(self.machines.iter().filter(|machine| machine.available).count())
    }

    fn set(&self) -> Set {
        Set {
            name: self.name.clone(),
            created: Timestamp::from_second(self.age).ok(),
            spec: self.spec,
            replicas: self.reported.0,
            available: self.reported.1,
            movable: self.movable,
        }
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).expect("few machines")
}

#[derive(Clone, Debug)]
struct World {
    limits: Limits,
    /// The new set first.
    sets: Vec<Sim>,
    moves: Vec<String>,
    made: usize,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Plan,
    Reconcile(usize),
    BecomeAvailable(usize),
    Report(usize),
}

impl World {
    fn new(limits: Limits, new: usize, old: &[usize]) -> Self {
        let mut made = 0;
        let mut machines = |number: usize| {
            let first = made;
            made += number;
            (first..made).map(|id| Machine { id, available: true, unacknowledged: false }).collect::<Vec<_>>()
        };
        let mut sets = vec![Sim::new("new".into(), 100, machines(new))];
        for (age, number) in (1..).zip(old) {
            sets.push(Sim::new(format!("old{age}"), age, machines(*number)));
        }
        Self { limits, sets, moves: vec![], made }
    }

    fn machines(&self) -> i32 {
        self.sets.iter().map(|sim| count(sim.machines.len())).sum()
    }

    fn available(&self) -> i32 {
        self.sets.iter().map(Sim::available).sum()
    }

    fn happen(&mut self, event: Event) {
        let number = self.sets.len();
        match event {
            Event::Plan => self.plan(),
            Event::Reconcile(index) => self.reconcile(index % number),
            Event::Report(index) => self.sets[index % number].report(),
            Event::BecomeAvailable(index) => {
                if let Some(machine) = self.sets[index % number].machines.iter_mut().find(|m| !m.available) {
                    machine.available = true;
                }
            }
        }
    }

    fn plan(&mut self) {
        let new = &mut self.sets[0];
        for machine in &mut new.machines {
            new.spec += i32::from(std::mem::take(&mut machine.unacknowledged));
        }
        let sets: Vec<Set> = self.sets.iter().map(Sim::set).collect();
        let plan = rolling_update(self.limits, &sets[0], &sets[1..]);
        for (sim, set) in self.sets.iter_mut().zip(&sets) {
            sim.spec = plan.target(set);
        }
        self.moves = plan.moves;
    }

    /// One machine more, or all that are too many away, available ones first.
    fn reconcile(&mut self, index: usize) {
        let sim = &mut self.sets[index];
        let counted = count(sim.machines.iter().filter(|machine| !machine.unacknowledged).count());
        if counted < sim.spec {
            sim.machines.push(Machine { id: self.made, available: false, unacknowledged: false });
            self.made += 1;
        }
        let move_away = self.moves.contains(&sim.name);
        sim.machines.sort_by_key(|machine| !machine.available);
        let mut moved = vec![];
        for _ in sim.spec..counted {
            let position = sim.machines.iter().position(|machine| !machine.unacknowledged);
            moved.push(sim.machines.remove(position.expect("counted above")));
        }
        sim.report();
        if move_away {
            let arrived = moved.into_iter().map(|machine| Machine {
                available: false,
                unacknowledged: true,
                ..machine
            });
            self.sets[0].machines.extend(arrived);
        }
    }

    fn is_done(&self) -> bool {
        let new = &self.sets[0];
        let emptied = self.sets[1..].iter().all(|sim| sim.spec == 0 && sim.machines.is_empty());
        emptied && new.spec == self.limits.desired && count(new.machines.len()) == new.spec
    }

    /// Everybody gets their turn, again and again.
    fn finish(&mut self) -> bool {
        for _ in 0..200 {
            if self.is_done() {
                return true;
            }
            self.plan();
            for index in 0..self.sets.len() {
                self.reconcile(index);
                self.happen(Event::BecomeAvailable(index));
                self.sets[index].report();
            }
        }
        false
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Plan),
        any::<usize>().prop_map(Event::Reconcile),
        any::<usize>().prop_map(Event::BecomeAvailable),
        any::<usize>().prop_map(Event::Report),
    ]
}

fn a_limits() -> impl Strategy<Value = Limits> {
    (0..8_i32, 0..4_i32, 0..4_i32).prop_map(|(desired, max_surge, max_unavailable)| {
        let none = max_surge == 0 && max_unavailable == 0;
        let max_unavailable = if none { 1 } else { max_unavailable };
        Limits { desired, max_surge, max_unavailable: max_unavailable.min(desired) }
    })
}

proptest! {
    #[test]
    fn a_rollout_keeps_its_limits_and_ends(
        limits in a_limits(),
        new in 0..4_usize,
        old in prop::collection::vec(0..5_usize, 0..3),
        events in prop::collection::vec(event(), 0..80),
    ) {
        // Scaling the new set down is the user's doing and may cost availability, as upstream.
        let new = new.min(usize::try_from(limits.desired).expect("not negative"));
        let mut world = World::new(limits, new, &old);
        let most = limits.most().max(world.machines());
        let least = limits.min_available().min(world.available());
        for event in events {
            world.happen(event);
            prop_assert!(world.machines() <= most, "more than {most}: {world:?}");
            prop_assert!(world.available() >= least, "fewer than {least} available: {world:?}");
        }
        prop_assert!(world.finish(), "does not end: {world:?}");
    }

    #[test]
    fn in_place_keeps_every_machine(
        limits in a_limits(),
        events in prop::collection::vec(event(), 0..80),
    ) {
        let number = usize::try_from(limits.desired).expect("not negative");
        let mut world = World::new(limits, 0, &[number]);
        world.sets[1].movable = true;
        let least = limits.in_place().min_available();
        for event in events {
            world.happen(event);
            prop_assert!(world.available() >= least, "fewer than {least} available: {world:?}");
        }
        prop_assert!(world.finish(), "does not end: {world:?}");
        let mut ids: Vec<usize> = world.sets[0].machines.iter().map(|machine| machine.id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..number).collect::<Vec<_>>());
    }
}
