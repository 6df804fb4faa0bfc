//! Which machines a control plane should gain, lose or change next. One step at a time. Pure.

use capstan_distro::{Change, Cost};

use crate::facts::MachineFacts;

/// What is known, beside the machines themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted<'a> {
    /// How many there should be.
    pub(crate) replicas: usize,
    /// Failure domains that control plane machines may be placed in.
    pub(crate) domains: Vec<&'a str>,
    /// A machine of this name was begun.
    pub(crate) begun: Option<&'a str>,
    /// What no machine could be told.
    pub(crate) impossible: Option<Change>,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Nothing,
    /// A machine is made.
    Create {
        /// Where it is placed.
        failure_domain: Option<String>,
    },
    /// A machine that was begun is not wanted any more.
    GiveUp(String),
    /// The machine is deleted.
    Delete(String),
    /// The machine is told what it should be now.
    Update(String),
    /// Something else must end first, and what.
    Wait(String),
    /// What was asked for cannot be done: these fields are in the way. Nothing is touched.
    Refuse(Vec<Change>),
}

/// The next step. `machines` are those of this control plane.
pub(crate) fn decide(machines: &[MachineFacts], wanted: &Wanted<'_>) -> Step {
    let refused: Vec<Change> = wanted.impossible.iter().cloned().chain(refused(machines)).collect();
    if !refused.is_empty() {
        return Step::Refuse(refused);
    }
    let staying: Vec<&MachineFacts> = machines.iter().filter(|machine| !machine.deleting).collect();
    if let Some(leaving) = machines.iter().find(|machine| machine.deleting) {
        return Step::Wait(format!("waits for Machine {} to be deleted", leaving.name));
    }
    let begun = wanted.begun.filter(|name| staying.iter().all(|machine| machine.name != *name));
    if let Some(name) = begun.filter(|_| staying.len() >= wanted.replicas) {
        return Step::GiveUp(name.to_owned());
    }
    if staying.len() > wanted.replicas.max(1) {
        return shrink(&staying);
    }
    if let Some(step) = update(&staying) {
        return step;
    }
    if staying.len() < wanted.replicas {
        return match staying.iter().find(|machine| !machine.is_up()) {
            Some(machine) => Step::Wait(format!("waits for Machine {} to be up", machine.name)),
            None => Step::Create { failure_domain: domain(&staying, &wanted.domains) },
        };
    }
    Step::Nothing
}

/// Every change that cannot be made in place, once.
fn refused(machines: &[MachineFacts]) -> Vec<Change> {
    let mut refused: Vec<Change> = Vec::new();
    let changes = machines.iter().filter(|machine| !machine.deleting).flat_map(|machine| &machine.changes);
    for change in changes.filter(|change| change.cost >= Cost::Replace) {
        if !refused.contains(change) {
            refused.push(change.clone());
        }
    }
    refused
}

/// The oldest machine that differs, once all others are up. One that is itself in trouble may be told something
/// better.
fn update(staying: &[&MachineFacts]) -> Option<Step> {
    let outdated = |machine: &&&MachineFacts| !machine.changes.is_empty();
    let in_trouble = |machine: &&&MachineFacts| (machine.is_up(), machine.created, machine.name.clone());
    let next = staying.iter().filter(outdated).min_by_key(in_trouble)?;
    let other = staying.iter().find(|other| other.name != next.name && !other.is_up());
    Some(match other {
        Some(other) => Step::Wait(format!("waits for Machine {} to be up", other.name)),
        None => Step::Update(next.name.clone()),
    })
}

/// The one that somebody asked for, else one that is in trouble, else the youngest; and only while the rest is up,
/// because each that goes takes a member of etcd with it.
fn shrink(staying: &[&MachineFacts]) -> Step {
    let order = |machine: &&&MachineFacts| {
        (machine.delete_first, !machine.is_up(), machine.created, machine.name.clone())
    };
    let Some(next) = staying.iter().max_by_key(order) else { return Step::Nothing };
    match staying.iter().find(|other| other.name != next.name && !other.is_up()) {
        Some(other) => Step::Wait(format!("waits for Machine {} to be up", other.name)),
        None => Step::Delete(next.name.clone()),
    }
}

/// The domain with the fewest machines; the first by name among equals.
fn domain(staying: &[&MachineFacts], domains: &[&str]) -> Option<String> {
    let load = |domain: &&&str| {
        let there =
            staying.iter().filter(|machine| machine.failure_domain.as_deref() == Some(**domain)).count();
        (there, (**domain).to_owned())
    };
    domains.iter().min_by_key(load).map(|domain| (*domain).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(name: &str) -> MachineFacts {
        MachineFacts::server(name).up()
    }

    fn outdated(machine: MachineFacts, cost: Cost) -> MachineFacts {
        machine.with(|m| {
            m.changes.push(Change { field: "spec.version".to_owned(), cost, why: "because".into() });
        })
    }

    fn wanted(replicas: usize) -> Wanted<'static> {
        Wanted { replicas, ..Wanted::default() }
    }

    fn step(machines: &[MachineFacts], replicas: usize) -> String {
        match decide(machines, &wanted(replicas)) {
            Step::Nothing => "nothing".to_owned(),
            Step::Create { .. } => "create".to_owned(),
            Step::GiveUp(name) => format!("give up {name}"),
            Step::Delete(name) => format!("delete {name}"),
            Step::Update(name) => format!("update {name}"),
            Step::Wait(why) => why,
            Step::Refuse(changes) => format!("refuse {}", changes[0].field),
        }
    }

    #[test]
    fn machines_come_one_after_the_other() {
        assert_eq!(step(&[], 3), "create");
        let new = MachineFacts::server("a").provisioned();
        assert_eq!(step(&[new], 3), "waits for Machine a to be up");
        assert_eq!(step(&[up("a")], 3), "create");
        let joining = MachineFacts::server("b").planned(1, "a");
        assert_eq!(step(&[up("a"), joining], 3), "waits for Machine b to be up");
        assert_eq!(step(&[up("a"), up("b"), up("c")], 3), "nothing");
        assert_eq!(step(&[up("a"), up("b").leaving()], 3), "waits for Machine b to be deleted");
    }

    #[test]
    fn machines_go_one_after_the_other() {
        let three = || vec![up("a").born(1), up("b").born(2), up("c").born(3)];
        assert_eq!(step(&three(), 1), "delete c");
        let mut asked = three();
        asked[0].delete_first = true;
        assert_eq!(step(&asked, 1), "delete a");
        let mut ill = three();
        ill[1].has_node = false;
        assert_eq!(step(&ill, 1), "delete b");
        ill[2].has_node = false;
        assert_eq!(step(&ill, 1), "waits for Machine b to be up");
        let mut going = three();
        going[2].deleting = true;
        assert_eq!(step(&going, 1), "waits for Machine c to be deleted");
        // The last one is never taken away by scaling.
        assert_eq!(step(&[up("a")], 0), "nothing");
    }

    #[test]
    fn changes_reach_one_machine_at_a_time() {
        let old = |name| outdated(up(name), Cost::Restart);
        assert_eq!(step(&[old("a")], 1), "update a");
        assert_eq!(step(&[old("a").born(2), old("b").born(1), up("c")], 3), "update b");
        let busy = up("a").with(|m| m.kubelet_version = Some("v1.35.0".to_owned()));
        assert_eq!(step(&[busy.clone(), old("b")], 3), "waits for Machine a to be up");
        // A machine that failed with the last change gets the next one first.
        assert_eq!(step(&[old("b").born(0), outdated(busy, Cost::Restart).born(9)], 3), "update a");
    }

    #[test]
    fn what_cannot_be_done_in_place_is_refused_and_nothing_is_touched() {
        for cost in [Cost::Replace, Cost::Refused] {
            assert_eq!(step(&[outdated(up("a"), cost)], 3), "refuse spec.version");
            assert_eq!(step(&[up("a"), up("b"), outdated(up("c"), cost)], 1), "refuse spec.version");
        }
        for cost in [Cost::Nothing, Cost::Live, Cost::Restart] {
            assert_eq!(step(&[outdated(up("a"), cost)], 1), "update a");
        }
        let impossible =
            Change { field: "spec.config.settings.server".to_owned(), cost: Cost::Refused, why: "no".into() };
        for machines in [vec![], vec![outdated(up("a"), Cost::Restart)]] {
            let wanted = Wanted { replicas: 3, impossible: Some(impossible.clone()), ..Wanted::default() };
            assert_eq!(decide(&machines, &wanted), Step::Refuse(vec![impossible.clone()]));
        }
        // The same field of three machines is named once.
        let three = [outdated(up("a"), Cost::Refused), outdated(up("b"), Cost::Refused)];
        assert!(matches!(decide(&three, &wanted(3)), Step::Refuse(changes) if changes.len() == 1));
    }

    #[test]
    fn what_was_begun_is_finished_or_given_up() {
        let begun = |machines: &[MachineFacts], replicas| {
            decide(machines, &Wanted { replicas, begun: Some("n"), ..Wanted::default() })
        };
        assert_eq!(begun(&[], 1), Step::Create { failure_domain: None });
        assert_eq!(begun(&[up("a")], 1), Step::GiveUp("n".to_owned()));
        assert_eq!(begun(&[up("n")], 1), Step::Nothing);
    }

    #[test]
    fn machines_are_spread_over_failure_domains() {
        let at = |name: &str, domain: &str| up(name).with(|m| m.failure_domain = Some(domain.to_owned()));
        let place = |machines: &[MachineFacts], domains: &[&'static str]| {
            decide(machines, &Wanted { replicas: 5, domains: domains.to_vec(), ..Wanted::default() })
        };
        let create = |domain: Option<&str>| Step::Create { failure_domain: domain.map(str::to_owned) };
        assert_eq!(place(&[], &[]), create(None));
        assert_eq!(place(&[], &["b", "a"]), create(Some("a")));
        assert_eq!(place(&[at("1", "a")], &["a", "b"]), create(Some("b")));
        assert_eq!(place(&[at("1", "a"), at("2", "b")], &["a", "b", "c"]), create(Some("c")));
        assert_eq!(place(&[at("1", "gone")], &["a"]), create(Some("a")));
    }
}
