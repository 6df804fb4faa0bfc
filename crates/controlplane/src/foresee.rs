//! Computes what a change of a control plane would do to its machines.
//!
//! It decides nothing itself: it repeats the decision of the controller on facts that are updated as if each machine
//! had applied its plan and were healthy. No writes.

use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine};
use capstan_controller::Caches;
use capstan_controller::Knowledge;
use capstan_controller::error::Result;
use capstan_controller::external::Externals;
use capstan_distro::HostFacts;
use capstan_distro::cost::{Change, Cost, Subject, changes, field};
use capstan_planner::facts::{EtcdView, LocalVolumes, MachineFacts, NodeView};
use capstan_planner::foresee::{Beside, Question, members, think};
use capstan_planner::machines::decide;
use capstan_planner::windows::Maintenance;
use jiff::Timestamp;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::healing::contact::Contacts;
use crate::healing::ladder;
use crate::machines::{View, propagate, wanted};
use crate::observe::Machines;
use crate::plans::restart_after;
use crate::scope::{Scope, may_replace, replicas};

pub use capstan_planner::foresee::{ForeseenStep, Foresight};

/// When a machine may be drained and restarted for a change, given its control plane, if that is one of Capstan, and its Host.
pub fn maintenance(
    owner: Option<&CapstanControlPlane>,
    machine: &Machine,
    host: Option<&HostFacts>,
) -> Maintenance {
    crate::observe::maintenance(owner, machine, host)
}

/// A control plane before and after a planned change.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Before the change; equal to `after` if another object changes.
    pub before: &'a CapstanControlPlane,
    /// After the change.
    pub after: &'a CapstanControlPlane,
    /// Its Cluster after the change.
    pub cluster: &'a Cluster,
}

/// Reads the inputs of the decision, and computes the steps of the change.
///
/// # Errors
/// If an object cannot be read.
pub async fn foresee(client: &Client, externals: &Externals, asked: Asked<'_>) -> Result<Foresight> {
    let namespace = asked.after.namespace().unwrap_or_default();
    let scope = Scope {
        caches: &Caches::live(client.clone()),
        externals,
        owner: asked.after,
        cluster: asked.cluster,
        namespace: &namespace,
        // Nothing is written here, so no object is adopted.
        plane: "",
        now: Timestamp::now(),
        contacts: &Contacts::default(),
        suffix: &capstan_controller::names::random_suffix,
    };
    let observed = scope.machines().await?;
    let plans = scope.secrets().await?.plans;
    // Whether a plan is ours is the planner's question; here it is only asked whether it was carried out.
    // A real rollout checks the Nodes before each step. The forecast assumes that they are healthy.
    let nodes =
        observed.machines.keys().map(|name| (name.clone(), NodeView { ready: true, ..NodeView::default() }));
    let facts = observed.facts(asked.after, &plans, None, &Knowledge::Known(nodes.collect()));
    Ok(thought_through(&scope, asked.before, &observed, facts))
}

/// Pure, except for reads of the scope that are cached.
fn thought_through(
    scope: &Scope<'_>,
    before: &CapstanControlPlane,
    observed: &Machines,
    facts: Vec<MachineFacts>,
) -> Foresight {
    let beside = |server: &MachineFacts| {
        let machine = observed.machines.get(&server.name);
        let handed_down = machine.map(|machine| handed_down(scope, before, machine)).unwrap_or_default();
        Beside { handed_down, restarted: restarted(scope, before, server) }
    };
    let servers = facts.iter().filter(|machine| machine.control_plane);
    let question = Question {
        beside: servers.map(|server| (server.name.clone(), beside(server))).collect(),
        facts,
        first: scope.elected().filter(|_| scope.is_initialized()),
        replicas: replicas(scope.owner),
        version: &scope.owner.spec.version,
        now: scope.now,
    };
    let endpoint = scope.endpoint().map(|endpoint| endpoint.host).unwrap_or_default();
    let remediated = scope.remediated();
    // A real rollout reads the volumes of a machine before it deletes the machine.
    let volumes = Knowledge::Known(LocalVolumes::new());
    think(question, |servers, made| {
        let etcd = EtcdView::Known(members(servers));
        let view = View { etcd: &etcd, volumes: &volumes, initialized: scope.is_initialized() };
        let mut wanted = wanted(scope, &endpoint, view, remediated.as_ref());
        // The first that is made is the one that was begun.
        wanted.begun = wanted.begun.filter(|_| made == 0);
        decide(servers, &wanted)
    })
}

/// The changes that reach the Machine at once.
fn handed_down(scope: &Scope<'_>, before: &CapstanControlPlane, machine: &Machine) -> Vec<Change> {
    let with = |owner: &CapstanControlPlane| {
        let mut handed_down = machine.clone();
        propagate(owner, &scope.cluster_name(), &mut handed_down);
        json!({"metadata": handed_down.metadata, "spec": handed_down.spec})
    };
    changes(Subject::Machine, &with(before), &with(scope.owner))
}

/// Whether `spec.rollout.after` restarts Kubernetes on the machine.
fn restarted(scope: &Scope<'_>, before: &CapstanControlPlane, machine: &MachineFacts) -> Option<Change> {
    let path = "spec.rollout.after";
    let (was, is) =
        (restart_after(before, machine, scope.now), restart_after(scope.owner, machine, scope.now));
    let why = field(Subject::ControlPlane, path).map_or("", |field| field.why);
    (was != is).then(|| Change { from: was, to: is, ..Change::new(path, Cost::Restart, why) })
}

/// One sentence about how a machine is healed if its health check fails.
pub fn healing(owner: &CapstanControlPlane) -> String {
    let replace = match may_replace(owner) {
        true => "then a server is replaced, if a clean host is free and etcd can bear it",
        false => "then a person is asked: no server is replaced",
    };
    format!("{}; {replace}", ladder(owner.spec.healing.as_ref()))
}
