//! What a change of a control plane would do to its machines, thought through to its end.
//!
//! Nothing is judged here: the next step is what the controller would decide, again and again, on facts that are brought
//! up to date as if each machine had done what it was told and were well afterwards. Reads only.

use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine};
use capstan_controller::Caches;
use capstan_controller::Knowledge;
use capstan_controller::error::Result;
use capstan_controller::etcd::{Member, Members};
use capstan_controller::external::Externals;
use capstan_controller::remote::LocalVolumes;
use capstan_distro::cost::{Cost, Subject, changes, field};
use capstan_distro::{Change, Version};
use jiff::{SignedDuration, Timestamp};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{EtcdView, MachineFacts};
use crate::healing::Ladder;
use crate::healing::contact::Contacts;
use crate::machines::{self, Step as Decision, propagate};
use crate::observe::Machines;
use crate::planner::{is_drained_first, others_serve, restart_after, runs_ahead};
use crate::round::{View, wanted};
use crate::scope::{Scope, may_replace};
use crate::workload::NodeView;

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
    pub waits: Vec<String>,
    /// The machines of the control plane that there are: every field that would change on them, and what that costs.
    pub machines: BTreeMap<String, Vec<Change>>,
    /// Machines of the cluster, workers too, whose pods would be moved away where that is called for.
    pub drained: BTreeSet<String>,
    servers: Vec<MachineFacts>,
}

/// A control plane as it is and as it would be.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// As it is; the same as `after`, if something else changes.
    pub before: &'a CapstanControlPlane,
    /// As it would be.
    pub after: &'a CapstanControlPlane,
    /// Its Cluster as it would be.
    pub cluster: &'a Cluster,
}

/// Reads what a decision about the control plane is made from, and thinks it through.
///
/// # Errors
/// If something cannot be read.
pub async fn foresee(client: &Client, externals: &Externals, asked: Asked<'_>) -> Result<Foresight> {
    let namespace = asked.after.namespace().unwrap_or_default();
    let scope = Scope {
        caches: &Caches::live(client.clone()),
        externals,
        owner: asked.after,
        cluster: asked.cluster,
        namespace: &namespace,
        // Nothing is written here, so nobody is taken over.
        plane: "",
        now: Timestamp::now(),
        contacts: &Contacts::default(),
        suffix: &capstan_controller::names::random_suffix,
    };
    let observed = scope.machines().await?;
    let plans = scope.secrets().await?.plans;
    // Whether a plan is ours is the planner's question; here it is only asked whether it was carried out.
    // How Nodes are is looked at before each step; what is thought through here is what follows if they are well.
    let nodes =
        observed.machines.keys().map(|name| (name.clone(), NodeView { ready: true, ..NodeView::default() }));
    let facts = observed.facts(asked.after, &plans, None, &Knowledge::Known(nodes.collect()));
    Ok(think(&scope, asked.before, &observed, facts))
}

/// Pure, but for what the scope has read already.
fn think(
    scope: &Scope<'_>,
    before: &CapstanControlPlane,
    observed: &Machines,
    facts: Vec<MachineFacts>,
) -> Foresight {
    let drained = facts.iter().filter(|machine| is_drained_first(machine, &facts, scope.now));
    let drained = drained.map(|machine| machine.name.clone()).collect();
    let mut foresight = Foresight { drained, ..Foresight::default() };
    let mut servers: Vec<MachineFacts> = facts.into_iter().filter(|machine| machine.control_plane).collect();
    servers.sort_by(|a, b| a.age().cmp(&b.age()));
    for server in &servers {
        let mut changes = server.changes.clone();
        let machine = observed.machines.get(&server.name);
        changes.extend(machine.map(|machine| told(scope, before, machine)).unwrap_or_default());
        changes.extend(restarted(scope, before, server));
        foresight.machines.insert(server.name.clone(), changes);
    }
    let outdated: Vec<String> =
        servers.iter().filter(|m| restarted(scope, before, m).is_some()).map(|m| m.name.clone()).collect();
    let now = servers.clone();
    decide(scope, &mut servers, &mut foresight);
    if let Some((name, change)) = joins(scope, &now, &servers).filter(|_| foresight.refused.is_empty()) {
        foresight.machines.entry(name).or_default().push(change);
    }
    if foresight.refused.is_empty() {
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

/// The steps that the controller would take, each decided from what the last one leads to.
fn decide(scope: &Scope<'_>, servers: &mut Vec<MachineFacts>, foresight: &mut Foresight) {
    let endpoint = scope.endpoint().map(|endpoint| endpoint.host).unwrap_or_default();
    let remediated = scope.remediated();
    // Which volumes are on which machine is looked at before one is taken away.
    let volumes = Knowledge::Known(LocalVolumes::new());
    let next = |servers: &[MachineFacts], made: usize| {
        let etcd = EtcdView::Known(members(servers));
        let view = View { etcd: &etcd, volumes: &volumes, initialized: scope.is_initialized() };
        let mut wanted = wanted(scope, &endpoint, view, remediated.as_ref());
        // The first that is made is the one that was begun.
        wanted.begun = wanted.begun.filter(|_| made == 0);
        machines::decide(servers, &wanted)
    };
    let rounds = ROUNDS * (1 + servers.len() + crate::status::replicas(scope.owner));
    play(servers, foresight, Future { version: &scope.owner.spec.version, now: scope.now, rounds }, next);
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
fn joins(scope: &Scope<'_>, now: &[MachineFacts], then: &[MachineFacts]) -> Option<(String, Change)> {
    let first = scope.elected().filter(|_| scope.is_initialized())?;
    let machine = now.iter().find(|machine| machine.id.as_deref() == Some(&first.id) && !machine.deleting)?;
    let stays = then.iter().any(|server| server.name == machine.name);
    let is_joined = then.iter().any(|server| server.name != machine.name);
    let why = "the first server joins the others when it starts without its data, as long as there are any";
    let changes = stays && is_joined != others_serve(machine, now);
    changes.then(|| (machine.name.clone(), Change::new("spec.replicas", Cost::Live, why)))
}

/// What reaches the Machine at once.
fn told(scope: &Scope<'_>, before: &CapstanControlPlane, machine: &Machine) -> Vec<Change> {
    let with = |owner: &CapstanControlPlane| {
        let mut told = machine.clone();
        propagate(owner, &scope.cluster_name(), &mut told);
        json!({"metadata": told.metadata, "spec": told.spec})
    };
    changes(Subject::Machine, &with(before), &with(scope.owner))
}

/// Whether Kubernetes on the machine is started again because of `spec.rollout.after`.
fn restarted(scope: &Scope<'_>, before: &CapstanControlPlane, machine: &MachineFacts) -> Option<Change> {
    let path = "spec.rollout.after";
    let (was, is) =
        (restart_after(before, machine, scope.now), restart_after(scope.owner, machine, scope.now));
    let why = field(Subject::ControlPlane, path).map_or("", |field| field.why);
    (was != is).then(|| Change { from: was, to: is, ..Change::new(path, Cost::Restart, why) })
}

/// An etcd that is well: how it really is, is looked at before each step.
fn members(servers: &[MachineFacts]) -> Members {
    let member = |(id, machine): (u64, &MachineFacts)| Member {
        id,
        name: format!("{}-00000000", machine.node_name()),
        is_healthy: true,
        ..Member::default()
    };
    Members { leader: Some(1), members: (1..).zip(servers).map(member).collect() }
}

/// What would be done about a machine of the cluster whose health check fails, as one sentence.
pub fn healing(owner: &CapstanControlPlane) -> String {
    let replace = match may_replace(owner) {
        true => "then a server is replaced, if a clean host is free and etcd can bear it",
        false => "then a person is asked: no server is replaced",
    };
    format!("{}; {replace}", Ladder::of(owner.spec.healing.as_ref()))
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
