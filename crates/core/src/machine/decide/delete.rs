//! In which order a Machine goes: hooks, drain, hooks, infrastructure, bootstrap config, Node, itself. Pure.

use capstan_api::core::{Cluster, Machine};
use capstan_api::meta::annotations;
use capstan_controller::{Error, Next, Result};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::super::observe::ControlPlane;
use crate::external::{Reading, flag, is_deleting};

/// How far a deletion has come, and what is told of it.
#[derive(Debug)]
pub(in crate::machine) struct Deletion {
    pub(in crate::machine) reason: &'static str,
    pub(in crate::machine) message: String,
    pub(in crate::machine) is_done: bool,
    pub(in crate::machine) result: Result<Next>,
}

impl Deletion {
    pub(in crate::machine) fn waiting(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), is_done: false, result: Ok(Next::Changed) }
    }

    pub(in crate::machine) fn failed(
        reason: &'static str,
        message: impl Into<String>,
        problem: Error,
    ) -> Self {
        Self { result: Err(problem), ..Self::waiting(reason, message) }
    }
}

/// What a deletion has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Stage {
    /// Other controllers must remove these annotations before the drain.
    PreDrainHooks(Vec<String>),
    /// The Node must be drained.
    Drain,
    /// Other controllers must remove these annotations before the infrastructure is deleted.
    PreTerminateHooks(Vec<String>),
    /// The infrastructure machine must be deleted; `ask` if its deletion is not requested yet.
    Infrastructure { ask: bool },
    /// The bootstrap config must be deleted; `ask` if its deletion is not requested yet.
    Bootstrap { ask: bool },
    /// An object cannot be read: nothing may be deleted without knowledge.
    Unreadable,
    /// The Node must be deleted.
    Node,
    /// Nothing is left.
    Done,
}

/// What has been done in this reconcile already.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::machine) struct Progress {
    pub(in crate::machine) drained: bool,
    pub(in crate::machine) node_gone: bool,
}

/// All that the order depends on.
pub(in crate::machine) struct Situation<'a> {
    pub(in crate::machine) machine: &'a Machine,
    pub(in crate::machine) bootstrap: &'a Reading,
    pub(in crate::machine) infrastructure: &'a Reading,
    /// Whether the Node may be drained and deleted at all.
    pub(in crate::machine) node: NodeFate,
    pub(in crate::machine) progress: Progress,
    pub(in crate::machine) now: Timestamp,
}

/// Whether the Node is drained and deleted with its Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum NodeFate {
    /// The Node is deleted with the Machine.
    Goes,
    /// The Node is deleted with the whole cluster, or does not exist.
    Left,
}

pub(in crate::machine) fn stage(situation: &Situation<'_>) -> Stage {
    let Situation { machine, progress, .. } = situation;
    if situation.node == NodeFate::Goes {
        let hooks = hooks(machine, annotations::PRE_DRAIN_HOOK_PREFIX);
        if !hooks.is_empty() {
            return Stage::PreDrainHooks(hooks);
        }
        if !progress.drained && is_drained_first(situation) {
            return Stage::Drain;
        }
    }
    let hooks = hooks(machine, annotations::PRE_TERMINATE_HOOK_PREFIX);
    if !hooks.is_empty() {
        return Stage::PreTerminateHooks(hooks);
    }
    match situation.infrastructure {
        Reading::Found(object) => return Stage::Infrastructure { ask: !is_deleting(object) },
        Reading::Unreadable => return Stage::Unreadable,
        Reading::Missing | Reading::Unreferenced => {}
    }
    match situation.bootstrap {
        Reading::Found(object) => return Stage::Bootstrap { ask: !is_deleting(object) },
        Reading::Unreadable => return Stage::Unreadable,
        Reading::Missing | Reading::Unreferenced => {}
    }
    match (situation.node, progress.node_gone) {
        (NodeFate::Goes, false) => Stage::Node,
        _ => Stage::Done,
    }
}

fn hooks(machine: &Machine, prefix: &str) -> Vec<String> {
    // The map is sorted, so the hooks are.
    machine.annotations().keys().filter(|key| key.starts_with(prefix)).cloned().collect()
}

/// Not if somebody has forbidden it, nor once the machine is on its way, nor for longer than is allowed.
fn is_drained_first(situation: &Situation<'_>) -> bool {
    let machine = situation.machine;
    let deletion = machine.status.as_ref().and_then(|status| status.deletion.as_ref());
    let is_terminating =
        deletion.is_some_and(|deletion| deletion.wait_for_pre_terminate_hook_start_time.is_some());
    let has_machine = situation.infrastructure.found().is_some_and(|object| !is_deleting(object));
    let started = deletion.and_then(|deletion| deletion.node_drain_start_time.as_ref());
    let timeout = machine.spec.deletion.as_ref().and_then(|deletion| deletion.node_drain_timeout_seconds);
    let is_over = match (started, timeout) {
        (Some(started), Some(timeout)) if timeout > 0 => {
            situation.now.duration_since(started.0) >= SignedDuration::from_secs(timeout.into())
        }
        _ => false,
    };
    let is_forbidden = machine.annotations().contains_key(annotations::EXCLUDE_NODE_DRAINING);
    !is_forbidden && !is_terminating && has_machine && !is_over
}

/// Whether nobody waits for the Node any longer.
pub(in crate::machine) fn is_node_given_up(machine: &Machine, now: Timestamp) -> bool {
    let timeout = machine.spec.deletion.as_ref().and_then(|deletion| deletion.node_deletion_timeout_seconds);
    match (timeout, &machine.metadata.deletion_timestamp) {
        (Some(seconds), Some(since)) if seconds > 0 => {
            now.duration_since(since.0) >= SignedDuration::from_secs(seconds.into())
        }
        _ => false,
    }
}

/// With its whole cluster or control plane gone nobody asks after a Node; and without a control plane there is nobody
/// to ask.
pub(in crate::machine) fn node_fate(machine: &Machine, cluster: &Cluster, around: &ControlPlane) -> NodeFate {
    let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    let object = around.object.found();
    let is_all_going = cluster.metadata.deletion_timestamp.is_some() || object.is_some_and(is_deleting);
    let is_external = object.is_some_and(|object| flag(object, "/status/externalManagedControlPlane"));
    let is_served = is_external || around.machines > 0;
    if has_node && !is_all_going && is_served { NodeFate::Goes } else { NodeFate::Left }
}

/// Whether the Node is left only because the cluster has no control plane Machine: then the Machine goes without a
/// drain, and that must be known.
pub(in crate::machine) fn is_left_unserved(
    machine: &Machine,
    cluster: &Cluster,
    around: &ControlPlane,
) -> bool {
    let served = ControlPlane { object: around.object.clone(), machines: 1 };
    node_fate(machine, cluster, around) == NodeFate::Left
        && node_fate(machine, cluster, &served) == NodeFate::Goes
}

#[cfg(test)]
#[path = "tests/delete.rs"]
mod tests;
