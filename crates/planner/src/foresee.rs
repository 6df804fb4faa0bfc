//! Computes what a change of a control plane would do to its machines.
//!
//! It decides nothing itself: it repeats the decision of the controller on facts that are updated as if each machine
//! had applied its plan and were healthy.

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

use crate::Version;
use crate::change::{Change, Cost};
use crate::etcd::{Member, Members};
use crate::facts::MachineFacts;
use crate::machines::MachineStep;
use crate::plans::{Elected, is_drained_first, others_serve, runs_ahead};
use crate::wait::Wait;
use crate::windows::Maintenance;

/// Decisions, for each machine there is or should be. Far more than any change takes.
const ROUNDS: usize = 8;

/// One step of a change. Steps are executed one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeseenStep {
    /// The machine is updated in place.
    Update(String),
    /// A machine is created.
    Create,
    /// The machine is deleted.
    Delete(String),
}

/// The effect of a planned change.
#[derive(Clone, Debug, Default)]
pub struct Foresight {
    /// The steps, in order.
    pub steps: Vec<ForeseenStep>,
    /// Fields that make the change impossible; then there are no steps.
    pub refused: Vec<Change>,
    /// Waits before the first step, or at which the change would stop.
    pub waits: Vec<Wait>,
    /// Existing control plane machines, with all fields that would change and their cost.
    pub machines: BTreeMap<String, Vec<Change>>,
    /// Machines of the cluster, including workers, that would be drained where a change requires it.
    pub drained: BTreeSet<String>,
    servers: Vec<MachineFacts>,
}

/// The machines before the change, and what would differ.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// All machines of the cluster, with their Nodes assumed to be Ready.
    pub facts: Vec<MachineFacts>,
    /// Changes of control plane machines besides those of their plans, by name.
    pub beside: BTreeMap<String, Beside>,
    /// The server that initialized the cluster, if there is one.
    pub first: Option<Elected>,
    /// Desired number of servers.
    pub replicas: usize,
    /// Desired version.
    pub version: &'a str,
    /// The current time.
    pub now: Timestamp,
}

/// Changes of a machine besides those of its plan.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Changes of its Machine object, which are written at once.
    pub handed_down: Vec<Change>,
    /// Why Kubernetes on it is restarted although nothing else changes.
    pub restarted: Option<Change>,
}

/// Computes the effect. `next` decides the next step of the servers, given the number of machines created so far.
pub fn think(question: Question<'_>, next: impl Fn(&[MachineFacts], usize) -> MachineStep) -> Foresight {
    let Question { mut facts, mut beside, first, replicas, version, now } = question;
    // What happens is foreseen, not when: `capstan plan` says beside it when windows are open.
    facts.iter_mut().for_each(|machine| machine.maintenance = Maintenance::ANY_TIME);
    let drained = facts.iter().filter(|machine| is_drained_first(machine, &facts, now));
    let drained = drained.map(|machine| machine.name.clone()).collect();
    let mut foresight = Foresight { drained, ..Foresight::default() };
    let mut servers: Vec<MachineFacts> = facts.into_iter().filter(|machine| machine.control_plane).collect();
    servers.sort_by(|a, b| a.age().cmp(&b.age()));
    let mut outdated = Vec::new();
    for server in &servers {
        let Beside { handed_down, restarted } = beside.remove(&server.name).unwrap_or_default();
        outdated.extend(restarted.is_some().then(|| server.name.clone()));
        let changes = server.changes.iter().cloned().chain(handed_down).chain(restarted).collect();
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
            if !foresight.steps.contains(&ForeseenStep::Update(name.clone())) {
                foresight.steps.push(ForeseenStep::Update(name));
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
    next: impl Fn(&[MachineFacts], usize) -> MachineStep,
) {
    let mut made = 0;
    for _ in 0..future.rounds {
        match next(servers, made) {
            MachineStep::Nothing | MachineStep::GiveUp(_) => return,
            MachineStep::Refuse(changes) => {
                foresight.refused = changes;
                return;
            }
            MachineStep::Create { failure_domain } => {
                made += 1;
                foresight.steps.push(ForeseenStep::Create);
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
            MachineStep::Delete { machine: name, .. } | MachineStep::Remediate { machine: name, .. } => {
                servers.retain(|machine| machine.name != name);
                foresight.steps.push(ForeseenStep::Delete(name));
            }
            MachineStep::Update(name) => {
                for machine in servers.iter_mut().filter(|machine| machine.name == name) {
                    machine.changes.clear();
                    machine.version = Some(future.version.to_owned());
                    machine.take_as_up();
                }
                foresight.steps.push(ForeseenStep::Update(name));
            }
            MachineStep::Wait(why) => {
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

/// A healthy etcd. Its real state is checked before each step.
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
    /// What a worker of this version would wait for after the change, if anything.
    pub fn holds_back(&self, version: &str) -> Option<String> {
        Version::parse(version)?;
        let worker = MachineFacts { version: Some(version.to_owned()), ..MachineFacts::default() };
        runs_ahead(&worker, self.servers.iter())
    }
}

#[cfg(test)]
#[path = "foresee_tests.rs"]
mod tests;
