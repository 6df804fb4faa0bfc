//! What a change of a control plane would do to its machines, thought through to its end.
//!
//! Nothing is judged here: the next step is what the controller would decide, again and again, on facts that are brought
//! up to date as if each machine had done what it was told and were well afterwards.

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

use crate::change::{Change, Cost};
use crate::etcd::{Member, Members};
use crate::facts::MachineFacts;
use crate::machines::Step as Decision;
use crate::plans::{Elected, is_drained_first, others_serve, runs_ahead};
use crate::version::Version;
use crate::wait::Wait;

/// Decisions, for each machine there is or should be. Far more than any change takes.
const ROUNDS: usize = 8;

/// One step. They come one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The machine is changed in place.
    Update(String),
    /// A machine is made.
    Create,
    /// The machine is deleted.
    Delete(String),
}

/// What would happen.
#[derive(Clone, Debug, Default)]
pub struct Foresight {
    /// In this order.
    pub steps: Vec<Step>,
    /// Nothing, because of these fields.
    pub refused: Vec<Change>,
    /// What it would wait for before it begins, or where it would stop.
    pub waits: Vec<Wait>,
    /// The machines of the control plane that there are: every field that would change on them, and what that costs.
    pub machines: BTreeMap<String, Vec<Change>>,
    /// Machines of the cluster, workers too, whose pods would be moved away where that is called for.
    pub drained: BTreeSet<String>,
    servers: Vec<MachineFacts>,
}

/// What is asked: the machines as they are, and what would be different.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// All machines of the cluster, with their Nodes taken as Ready.
    pub facts: Vec<MachineFacts>,
    /// What reaches machines of the control plane beside what differs in their plans, by name.
    pub beside: BTreeMap<String, Beside>,
    /// The server that began the cluster, once it has begun.
    pub first: Option<Elected>,
    /// How many servers there should be.
    pub replicas: usize,
    /// Which version they should run.
    pub version: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// What reaches a machine beside what differs in its plan.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// What is told to its Machine at once.
    pub told: Vec<Change>,
    /// Why Kubernetes on it is started again although nothing else changes.
    pub restarted: Option<Change>,
}

/// Thinks it through. `next` decides the next step of the servers, given how many machines were made so far.
pub fn think(question: Question<'_>, next: impl Fn(&[MachineFacts], usize) -> Decision) -> Foresight {
    let Question { facts, mut beside, first, replicas, version, now } = question;
    let drained = facts.iter().filter(|machine| is_drained_first(machine, &facts, now));
    let drained = drained.map(|machine| machine.name.clone()).collect();
    let mut foresight = Foresight { drained, ..Foresight::default() };
    let mut servers: Vec<MachineFacts> = facts.into_iter().filter(|machine| machine.control_plane).collect();
    servers.sort_by(|a, b| a.age().cmp(&b.age()));
    let mut outdated = Vec::new();
    for server in &servers {
        let Beside { told, restarted } = beside.remove(&server.name).unwrap_or_default();
        outdated.extend(restarted.is_some().then(|| server.name.clone()));
        let changes = server.changes.iter().cloned().chain(told).chain(restarted).collect();
        foresight.machines.insert(server.name.clone(), changes);
    }
    let before = servers.clone();
    let rounds = ROUNDS * (1 + servers.len() + replicas);
    play(&mut servers, &mut foresight, Future { version, now, rounds }, next);
    if foresight.refused.is_empty() {
        if let Some((name, change)) = first.and_then(|first| joins(&first, &before, &servers)) {
            foresight.machines.entry(name).or_default().push(change);
        }
        // These are the planner's alone: no object of the machine changes.
        for name in outdated {
            if !foresight.steps.contains(&Step::Update(name.clone())) {
                foresight.steps.push(Step::Update(name));
            }
        }
    }
    foresight.servers = servers;
    foresight
}

/// What machines become when they are told.
#[derive(Clone, Copy)]
struct Future<'a> {
    version: &'a str,
    now: Timestamp,
    rounds: usize,
}

/// Takes the next step until there is none, or nothing can go on. `next` is given how many machines were made. Pure.
fn play(
    servers: &mut Vec<MachineFacts>,
    foresight: &mut Foresight,
    future: Future<'_>,
    next: impl Fn(&[MachineFacts], usize) -> Decision,
) {
    let mut made = 0;
    for _ in 0..future.rounds {
        match next(servers, made) {
            Decision::Nothing | Decision::GiveUp(_) => return,
            Decision::Refuse(changes) => {
                foresight.refused = changes;
                return;
            }
            Decision::Create { failure_domain } => {
                made += 1;
                foresight.steps.push(Step::Create);
                let age = SignedDuration::from_secs(i64::try_from(made).unwrap_or(i64::MAX));
                let mut new = MachineFacts {
                    name: format!("(new {made})"),
                    control_plane: true,
                    created: future.now.checked_add(age).ok(),
                    version: Some(future.version.to_owned()),
                    failure_domain,
                    ..MachineFacts::default()
                };
                new.take_as_up();
                servers.push(new);
            }
            Decision::Delete { machine: name, .. } | Decision::Remediate { machine: name, .. } => {
                servers.retain(|machine| machine.name != name);
                foresight.steps.push(Step::Delete(name));
            }
            Decision::Update(name) => {
                for machine in servers.iter_mut().filter(|machine| machine.name == name) {
                    machine.changes.clear();
                    machine.version = Some(future.version.to_owned());
                    machine.take_as_up();
                }
                foresight.steps.push(Step::Update(name));
            }
            Decision::Wait(why) => {
                if foresight.waits.contains(&why) {
                    return;
                }
                foresight.waits.push(why);
                // What is under way comes to its end.
                servers.retain(|machine| !machine.deleting);
                servers.iter_mut().for_each(MachineFacts::take_as_up);
            }
        }
    }
}

/// What changes on the server that began the cluster when others come or go: whether it would join them if it had to start
/// without its data.
fn joins(first: &Elected, now: &[MachineFacts], then: &[MachineFacts]) -> Option<(String, Change)> {
    let machine = now.iter().find(|machine| machine.id.as_deref() == Some(&first.id) && !machine.deleting)?;
    let stays = then.iter().any(|server| server.name == machine.name);
    let is_joined = then.iter().any(|server| server.name != machine.name);
    let why = "the first server joins the others when it starts without its data, as long as there are any";
    let changes = stays && is_joined != others_serve(machine, now);
    changes.then(|| (machine.name.clone(), Change::new("spec.replicas", Cost::Live, why)))
}

/// An etcd that is well: how it really is, is looked at before each step.
pub fn members(servers: &[MachineFacts]) -> Members {
    let member = |(id, machine): (u64, &MachineFacts)| Member {
        id,
        name: format!("{}-00000000", machine.node_name()),
        is_healthy: true,
        ..Member::default()
    };
    Members { leader: Some(1), members: (1..).zip(servers).map(member).collect() }
}

impl Foresight {
    /// What a worker of this version would wait for once all of this is done, if anything.
    pub fn holds_back(&self, version: &str) -> Option<String> {
        Version::parse(version)?;
        let worker = MachineFacts { version: Some(version.to_owned()), ..MachineFacts::default() };
        runs_ahead(&worker, self.servers.iter())
    }
}

#[cfg(test)]
#[path = "foresee_tests.rs"]
mod tests;
