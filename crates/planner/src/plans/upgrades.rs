//! How far the roll-out of the program of the agent has come in a cluster, for people. Which machine gets the program is decided in
//! [`agents`](super::agents).

use capstan_plan::Digest;
use std::collections::{BTreeMap, BTreeSet};

use super::agents::{Trials, is_before};
use crate::facts::MachineFacts;

/// How far the roll-out of agents has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentUpgrades {
    /// No program is offered to a machine that has reported what it is.
    NotOffered,
    /// Every machine that can be upgraded now runs the program that is offered to it.
    Done,
    /// Machines replace their programs, or wait for their turn.
    Underway,
    /// No other machine gets the program.
    Stopped {
        /// Machines on which it does not work.
        rejected: Vec<String>,
        /// Machines that are silent since they were told to replace their program.
        silent: Vec<String>,
    },
}

/// How far the roll-out has come. `offered` has the program for each machine, by its name: machines differ in their architecture.
pub fn agent_upgrades(all: &[MachineFacts], offered: &BTreeMap<&str, Digest>) -> AgentUpgrades {
    let (mut rejected, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for program in offered.values().collect::<BTreeSet<_>>() {
        let trials = Trials::of(all, *program);
        rejected.extend(trials.rejected.iter().copied());
        silent.extend(trials.too_silent().iter().copied());
    }
    let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect::<Vec<String>>();
    if !rejected.is_empty() || !silent.is_empty() {
        return AgentUpgrades::Stopped { rejected: owned(rejected), silent: owned(silent) };
    }
    let is_waiting = |machine: &MachineFacts| {
        offered.get(machine.name.as_str()).is_some_and(|program| is_before(machine, *program))
    };
    match all.iter().any(is_waiting) {
        true => AgentUpgrades::Underway,
        false if offered.is_empty() => AgentUpgrades::NotOffered,
        false => AgentUpgrades::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::AgentFacts;
    use capstan_plan::{AgentProgram, Capabilities, Source};
    use jiff::Timestamp;

    fn digest(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    /// A worker with the program `old`.
    fn worker(name: &str) -> MachineFacts {
        MachineFacts::worker(name).up().with(|m| {
            m.capabilities = Some(Capabilities::all());
            m.agent = Some(AgentFacts { sha256: digest("old"), on_trial: false, rejected: None });
        })
    }

    /// Its plan names this program.
    fn told(name: &str, program: &str) -> MachineFacts {
        let url = "https://plane.example/agent".parse().expect("a source");
        let program = AgentProgram { sha256: digest(program), size: 1, sources: vec![Source::new(url)] };
        worker(name).with(|m| m.plan.as_mut().expect("a plan").agent = Some(program))
    }

    fn runs(machine: MachineFacts, program: &str) -> MachineFacts {
        machine.with(|m| m.agent.as_mut().expect("an agent").sha256 = digest(program))
    }

    fn rejects(machine: MachineFacts, program: &str) -> MachineFacts {
        machine.with(|m| m.agent.as_mut().expect("an agent").rejected = Some(digest(program)))
    }

    fn away(machine: MachineFacts) -> MachineFacts {
        machine.with(|m| m.silent_since = Some(Timestamp::UNIX_EPOCH))
    }

    fn stopped(rejected: &[&str], silent: &[&str]) -> AgentUpgrades {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        AgentUpgrades::Stopped { rejected: owned(rejected), silent: owned(silent) }
    }

    #[test]
    fn a_roll_out_is_done_underway_or_stopped_by_machines_that_are_named() {
        use AgentUpgrades::{Done, Underway};
        let trial = |name: &str| {
            runs(told(name, "new"), "new").with(|m| m.agent.as_mut().expect("an agent").on_trial = true)
        };
        let done = |name: &str| runs(told(name, "new"), "new");
        let held = worker("a").with(|m| m.is_kept_out = true);
        let unable = worker("a").with(|m| m.capabilities = Some(Capabilities::FIRST_RELEASE));
        let unknown = worker("a").with(|m| m.agent = None);
        for (case, machines, expected) in [
            ("none has begun", vec![worker("a"), worker("b")], Underway),
            ("one is on trial", vec![trial("a"), done("b")], Underway),
            ("all run it", vec![done("a"), runs(worker("b"), "new")], Done),
            ("one is on hold", vec![held, done("b")], Done),
            ("one cannot", vec![unable, done("b")], Done),
            ("one has not reported", vec![unknown, done("b")], Done),
            ("one was away before", vec![away(worker("a")), done("b")], Done),
            ("one is deleted", vec![worker("a").leaving(), done("b")], Done),
            (
                "the first has rejected it",
                vec![rejects(told("a", "new"), "new"), worker("b")],
                stopped(&["a"], &[]),
            ),
            (
                "a later one has rejected it",
                vec![done("a"), rejects(told("b", "new"), "new")],
                stopped(&["b"], &[]),
            ),
            ("an earlier program was rejected", vec![rejects(worker("a"), "older"), worker("b")], Underway),
            ("the first fell silent", vec![away(told("a", "new")), worker("b")], stopped(&[], &["a"])),
            ("one fell silent, and it works", vec![away(told("a", "new")), done("b"), worker("c")], Underway),
            (
                "two fell silent, and it works",
                vec![away(told("b", "new")), done("c"), away(told("a", "new"))],
                stopped(&[], &["a", "b"]),
            ),
            (
                "one fell silent, and another has rejected it",
                vec![away(told("a", "new")), rejects(told("b", "new"), "new")],
                stopped(&["b"], &["a"]),
            ),
        ] {
            let offered = machines.iter().map(|machine| (machine.name.as_str(), digest("new"))).collect();
            assert_eq!(agent_upgrades(&machines, &offered), expected, "{case}");
        }
    }

    #[test]
    fn architectures_have_programs_of_their_own() {
        let machines = [rejects(told("a", "new"), "new"), worker("b")];
        let none = BTreeMap::new();
        assert_eq!(agent_upgrades(&machines, &none), AgentUpgrades::NotOffered);
        let of_another = BTreeMap::from([("b", digest("for another architecture"))]);
        assert_eq!(agent_upgrades(&machines, &of_another), AgentUpgrades::Underway);
        let both = BTreeMap::from([("a", digest("new")), ("b", digest("for another architecture"))]);
        assert_eq!(agent_upgrades(&machines, &both), stopped(&["a"], &[]));
    }
}
