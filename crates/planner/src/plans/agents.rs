//! Which program the agent of a machine should run as, when the management plane offers another one: a few machines at a time, and none
//! after a machine has rejected it.

use capstan_plan::{AgentProgram, Capability, Digest};

use crate::facts::MachineFacts;

/// Once the offered program is known to work, one of so many machines of a cluster may replace its program at the same time.
const ONE_OF: usize = 10;

/// The program that the plan of a machine names. It is the offered one if it is the turn of the machine, and otherwise that of its
/// current plan.
///
/// One machine is the first, a worker if there is one that can do it. Then one of ten at the same time, and control plane machines after
/// all workers.
pub fn agent_program(
    machine: &MachineFacts,
    all: &[MachineFacts],
    offered: Option<&AgentProgram>,
) -> Option<AgentProgram> {
    let cannot = machine.capabilities.as_ref().is_some_and(|known| !known.has(Capability::ReplaceAgent));
    if cannot {
        return None;
    }
    let named = machine.plan.as_ref().and_then(|plan| plan.agent.clone());
    let (Some(offered), Some(agent)) = (offered, &machine.agent) else { return named };
    if named.as_ref().is_some_and(|named| named.sha256 == offered.sha256) {
        return Some(offered.clone());
    }
    if agent.sha256 == offered.sha256 {
        // Its plan need not name it, unless it would put an earlier one back.
        return named.map(|_| offered.clone());
    }
    if is_turn_of(machine, all, offered.sha256) { Some(offered.clone()) } else { named }
}

fn is_turn_of(machine: &MachineFacts, all: &[MachineFacts], offered: Digest) -> bool {
    let trials = Trials::of(all, offered);
    if trials.is_stopped() || !is_reachable(machine) {
        return false;
    }
    let most = if trials.works { (all.len() / ONE_OF).max(1) } else { 1 };
    let underway =
        all.iter().filter(|other| other.name != machine.name && is_underway(other, offered)).count();
    let is_worker_before = |other: &MachineFacts| !other.control_plane && is_before(other, offered);
    let waits_for_workers = machine.control_plane && all.iter().any(is_worker_before);
    underway < most && !waits_for_workers
}

/// What is known of a program from the machines of a cluster that were told to run it.
pub(super) struct Trials<'a> {
    /// Whether it works on a machine.
    works: bool,
    /// Machines that have rejected it.
    pub(super) rejected: Vec<&'a str>,
    /// Machines that fell silent after they were told to replace their program. It is not known whether the program is the reason.
    silent: Vec<&'a str>,
}

impl<'a> Trials<'a> {
    pub(super) fn of(all: &'a [MachineFacts], offered: Digest) -> Self {
        let named = |is: &dyn Fn(&MachineFacts) -> bool| {
            all.iter().filter(|machine| is(machine)).map(|machine| machine.name.as_str()).collect()
        };
        let works = |machine: &MachineFacts| {
            let runs = machine.agent.is_some_and(|agent| agent.sha256 == offered && !agent.on_trial);
            runs && is_reachable(machine)
        };
        Self {
            works: all.iter().any(works),
            rejected: named(&|machine| machine.agent.is_some_and(|agent| agent.rejected == Some(offered))),
            silent: named(&|machine| is_begun(machine, offered) && machine.silent_since.is_some()),
        }
    }

    /// Silent machines that stop the roll-out: any until the program is known to work, and more than one afterwards.
    pub(super) fn too_silent(&self) -> &[&'a str] {
        if self.silent.len() > usize::from(self.works) { &self.silent } else { &[] }
    }

    /// Whether no other machine gets the program.
    fn is_stopped(&self) -> bool {
        !self.rejected.is_empty() || !self.too_silent().is_empty()
    }
}

/// A machine that is away, or on its way out, neither counts nor gets a turn.
fn is_reachable(machine: &MachineFacts) -> bool {
    !machine.deleting && machine.silent_since.is_none()
}

/// Whether the machine is to replace its program, and has not shown that the new one works.
fn is_begun(machine: &MachineFacts, offered: Digest) -> bool {
    let named = machine.plan.as_ref().and_then(|plan| plan.agent.as_ref());
    let is_named = named.is_some_and(|named| named.sha256 == offered);
    let runs = machine.agent.is_some_and(|agent| agent.sha256 == offered && !agent.on_trial);
    !machine.deleting && is_named && !runs
}

/// Whether the machine replaces its program now.
fn is_underway(machine: &MachineFacts, offered: Digest) -> bool {
    is_begun(machine, offered) && is_reachable(machine)
}

/// Whether the machine can still replace its program by the offered one, now or when it is its turn.
pub(super) fn is_before(machine: &MachineFacts, offered: Digest) -> bool {
    let can = machine.capabilities.as_ref().is_some_and(|known| known.has(Capability::ReplaceAgent));
    let is_other = machine.agent.is_some_and(|agent| agent.sha256 != offered || agent.on_trial);
    can && is_other && is_reachable(machine) && !machine.is_kept_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::AgentFacts;
    use capstan_plan::{Capabilities, Source};
    use jiff::Timestamp;

    fn digest(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    fn program(name: &str) -> AgentProgram {
        let url = "https://plane.example/agent".parse().expect("a source");
        AgentProgram { sha256: digest(name), size: 1, sources: vec![Source::new(url)] }
    }

    fn running(machine: MachineFacts, name: &str) -> MachineFacts {
        machine.up().with(|m| {
            m.capabilities = Some(Capabilities::all());
            m.agent = Some(AgentFacts { sha256: digest(name), on_trial: false, rejected: None });
        })
    }

    trait Verbs {
        fn named(self, name: &str) -> Self;
        fn rejects(self, name: &str) -> Self;
    }

    impl Verbs for MachineFacts {
        /// Its plan names this program.
        fn named(self, name: &str) -> Self {
            self.with(|m| m.plan.as_mut().expect("a plan").agent = Some(program(name)))
        }

        fn rejects(self, name: &str) -> Self {
            self.with(|m| m.agent.as_mut().expect("an agent").rejected = Some(digest(name)))
        }
    }

    fn worker(name: &str) -> MachineFacts {
        running(MachineFacts::worker(name), "old")
    }

    fn server(name: &str) -> MachineFacts {
        running(MachineFacts::server(name), "old")
    }

    fn chosen(machine: &MachineFacts, others: &[MachineFacts], offered: Option<&str>) -> Option<String> {
        let all: Vec<MachineFacts> = std::iter::once(machine.clone()).chain(others.iter().cloned()).collect();
        let chosen = agent_program(machine, &all, offered.map(program).as_ref())?;
        let names = ["old", "new", "newer"];
        names.into_iter().find(|name| digest(name) == chosen.sha256).map(str::to_owned)
    }

    #[test]
    fn a_machine_gets_what_is_offered_when_it_is_its_turn() {
        let new = || Some("new".to_owned());
        let away = |m: MachineFacts| m.with(|m| m.silent_since = Some(Timestamp::UNIX_EPOCH));
        let unable = |m: MachineFacts| {
            m.with(|m| (m.capabilities, m.agent) = (Some(Capabilities::FIRST_RELEASE), None))
        };
        let trial = |m: MachineFacts| {
            m.with(|m| m.agent = Some(AgentFacts { sha256: digest("new"), on_trial: true, rejected: None }))
        };
        let done = |name: &str| running(MachineFacts::worker(name), "new");
        for (case, machine, others, offered, expected) in [
            ("nothing is offered", worker("a"), vec![], None, None),
            ("what it runs is offered", done("a"), vec![], Some("new"), None),
            ("the first", worker("a"), vec![worker("b")], Some("new"), new()),
            ("it has its turn", worker("a").named("new"), vec![worker("b")], Some("new"), new()),
            ("it is done", done("a").named("new"), vec![], Some("new"), new()),
            ("it is done, and its plan names another", done("a").named("old"), vec![], Some("new"), new()),
            ("another is the first", worker("a"), vec![worker("b").named("new")], Some("new"), None),
            ("another is on trial", worker("a"), vec![trial(worker("b").named("new"))], Some("new"), None),
            ("another is done", worker("a"), vec![done("b").named("new")], Some("new"), new()),
            (
                "one is done, another underway",
                worker("a"),
                vec![done("b"), worker("c").named("new")],
                Some("new"),
                None,
            ),
            ("another is away", worker("a"), vec![away(worker("b"))], Some("new"), new()),
            ("the first fell silent", worker("a"), vec![away(worker("b").named("new"))], Some("new"), None),
            (
                "one fell silent, and it works on another",
                worker("a"),
                vec![away(worker("b").named("new")), done("c")],
                Some("new"),
                new(),
            ),
            (
                "two fell silent, and it works on another",
                worker("a"),
                vec![away(worker("b").named("new")), away(worker("c").named("new")), done("d")],
                Some("new"),
                None,
            ),
            ("another is deleted", worker("a"), vec![worker("b").named("new").leaving()], Some("new"), new()),
            ("it is away", away(worker("a")), vec![], Some("new"), None),
            (
                "another has rejected it",
                worker("a"),
                vec![done("b"), worker("c").named("new").rejects("new")],
                Some("new"),
                None,
            ),
            ("it has rejected it", worker("a").named("new").rejects("new"), vec![], Some("new"), new()),
            (
                "a later one is offered",
                worker("a"),
                vec![worker("b").named("new").rejects("new")],
                Some("newer"),
                Some("newer".to_owned()),
            ),
            (
                "it waits with its own",
                worker("a").named("old"),
                vec![worker("b").named("new")],
                Some("new"),
                Some("old".to_owned()),
            ),
            ("it cannot", unable(worker("a")), vec![], Some("new"), None),
            ("it cannot any more", unable(worker("a").named("old")), vec![], Some("new"), None),
            ("a server after the workers", server("a"), vec![worker("b"), done("c")], Some("new"), None),
            ("a server when they are done", server("a"), vec![done("b")], Some("new"), new()),
            ("a server without workers", server("a"), vec![server("b")], Some("new"), new()),
            ("a server and a worker that cannot", server("a"), vec![unable(worker("b"))], Some("new"), new()),
        ] {
            assert_eq!(chosen(&machine, &others, offered), expected, "{case}");
        }
    }

    #[test]
    fn nothing_is_decided_while_nothing_is_known() {
        let unknown = worker("a").with(|m| (m.capabilities, m.agent) = (None, None));
        assert_eq!(chosen(&unknown, &[], Some("new")), None);
        assert_eq!(chosen(&unknown.named("old"), &[], Some("new")).as_deref(), Some("old"));
    }

    /// Plays a roll-out: in each round every machine gets its plan, and then replaces its program.
    fn roll_out(machines: usize, broken: impl Fn(usize) -> bool) -> (usize, usize, usize) {
        let mut all: Vec<MachineFacts> =
            (0..machines).map(|number| worker(&format!("w{number:03}"))).collect();
        let mut most = 0;
        for _ in 0..1000 {
            let mut underway = Vec::new();
            for at in 0..all.len() {
                let named = agent_program(&all[at], &all, Some(&program("new")));
                if named.is_some() && all[at].agent.expect("an agent").sha256 != digest("new") {
                    underway.push(at);
                }
                all[at].plan.as_mut().expect("a plan").agent = named;
            }
            underway.retain(|at| all[*at].agent.expect("an agent").rejected.is_none());
            most = most.max(underway.len());
            if underway.is_empty() {
                break;
            }
            for at in underway {
                let agent = all[at].agent.as_mut().expect("an agent");
                match broken(at) {
                    true => agent.rejected = Some(digest("new")),
                    false => agent.sha256 = digest("new"),
                }
            }
        }
        let count = |is: fn(&AgentFacts) -> bool| {
            all.iter().filter(|machine| machine.agent.as_ref().is_some_and(is)).count()
        };
        let new = count(|agent| agent.sha256 == Digest::of(b"new"));
        (new, count(|agent| agent.rejected.is_some()), most)
    }

    #[test]
    fn a_roll_out_goes_through_a_fleet_a_few_at_a_time_and_stops_at_the_first_failure() {
        assert_eq!(roll_out(1, |_| false), (1, 0, 1));
        assert_eq!(roll_out(5, |_| false), (5, 0, 1));
        assert_eq!(roll_out(100, |_| false), (100, 0, 10));
        // The first machine finds out.
        assert_eq!(roll_out(100, |_| true), (0, 1, 1));
        // No more than those that were underway beside the one that has failed.
        let (new, rejected, most) = roll_out(100, |number| number == 55);
        assert_eq!((rejected, most), (1, 10));
        assert!((50..=60).contains(&new), "{new}");
    }
}
