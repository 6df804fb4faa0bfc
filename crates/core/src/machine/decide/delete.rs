//! The order in which a Machine is deleted: hooks, drain, volumes, hooks, infrastructure, bootstrap config, Node, the Machine.
//! Pure.

use capstan_api::core::{Cluster, Machine, MachineDeletionStatus};
use capstan_api::meta::annotations;
use capstan_controller::{Error, Next, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use super::super::observe::ControlPlane;
use crate::external::{Reading, flag, is_deleting};

/// The default of `spec.deletion.nodeDeletionTimeoutSeconds`, which upstream's webhook writes.
const NODE_DELETION_SECONDS: i32 = 10;
/// The deletion of a Node is tried for this time at least, also if its timeout is over when it begins: that of the infrastructure
/// comes first, and may take long.
const NODE_DELETION_TRIES: SignedDuration = SignedDuration::from_secs(10);

/// How far a deletion is, and the message about it.
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

/// The next stage of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Stage {
    /// Other controllers must remove these annotations before the drain.
    PreDrainHooks(Vec<String>),
    /// The Node must be drained.
    Drain,
    /// Volumes must be detached from the Node.
    VolumeDetach,
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

/// What this reconcile has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::machine) struct Progress {
    pub(in crate::machine) drained: bool,
    pub(in crate::machine) detached: bool,
    pub(in crate::machine) node_gone: bool,
}

/// The inputs of the order.
pub(in crate::machine) struct Situation<'a> {
    pub(in crate::machine) machine: &'a Machine,
    pub(in crate::machine) bootstrap: &'a Reading,
    pub(in crate::machine) infrastructure: &'a Reading,
    /// Whether the Node may be drained and deleted at all.
    pub(in crate::machine) node: NodeFate,
    pub(in crate::machine) progress: Progress,
    /// The Node was drained, and its volumes are looked at again later.
    pub(in crate::machine) is_between_looks: bool,
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
        // Without a drain the hooks below would begin, and after that the Node is never drained.
        if matches!(situation.infrastructure, Reading::Unreadable) && !is_terminating(machine) {
            return Stage::Unreadable;
        }
        let is_detach_left = !progress.detached && is_detach_waited_for(situation);
        // Events in between do not drain the Node once more.
        let is_drained = progress.drained || (situation.is_between_looks && is_detach_left);
        if !is_drained && is_drained_first(situation) {
            return Stage::Drain;
        }
        if is_detach_left {
            return Stage::VolumeDetach;
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

/// No drain if the user has excluded it, if its timeout is over, or if the Node is left alone from now on.
fn is_drained_first(situation: &Situation<'_>) -> bool {
    let spec = situation.machine.spec.deletion.as_ref();
    let timeout = spec.and_then(|deletion| deletion.node_drain_timeout_seconds);
    let since = deletion(situation.machine).and_then(|deletion| deletion.node_drain_start_time.as_ref());
    !situation.machine.annotations().contains_key(annotations::EXCLUDE_NODE_DRAINING)
        && is_node_prepared(situation)
        && !is_over(since, timeout, situation.now)
}

/// The same for volumes.
fn is_detach_waited_for(situation: &Situation<'_>) -> bool {
    let spec = situation.machine.spec.deletion.as_ref();
    let timeout = spec.and_then(|deletion| deletion.node_volume_detach_timeout_seconds);
    let since = deletion(situation.machine)
        .and_then(|deletion| deletion.wait_for_node_volume_detach_start_time.as_ref());
    !situation.machine.annotations().contains_key(annotations::EXCLUDE_WAIT_FOR_VOLUME_DETACH)
        && is_node_prepared(situation)
        && !is_over(since, timeout, situation.now)
}

/// Whether the Node is still prepared for the deletion of its machine: that has not begun, and neither has the wait for hooks that
/// come after.
fn is_node_prepared(situation: &Situation<'_>) -> bool {
    let has_machine = situation.infrastructure.found().is_some_and(|object| !is_deleting(object));
    !is_terminating(situation.machine) && has_machine
}

/// Whether the wait for the hooks before the deletion of the infrastructure has begun.
fn is_terminating(machine: &Machine) -> bool {
    deletion(machine).is_some_and(|deletion| deletion.wait_for_pre_terminate_hook_start_time.is_some())
}

fn deletion(machine: &Machine) -> Option<&MachineDeletionStatus> {
    machine.status.as_ref()?.deletion.as_ref()
}

/// Whether a timeout is over. Zero is none.
fn is_over(since: Option<&Time>, timeout: Option<i32>, now: Timestamp) -> bool {
    match (since, timeout) {
        (Some(since), Some(timeout)) if timeout > 0 => {
            now.duration_since(since.0) >= SignedDuration::from_secs(timeout.into())
        }
        _ => false,
    }
}

/// Whether the timeout for the deletion of the Node is over, which has been failing since `failing`.
pub(in crate::machine) fn is_node_given_up(machine: &Machine, failing: Timestamp, now: Timestamp) -> bool {
    let spec = machine.spec.deletion.as_ref();
    let timeout = spec.and_then(|deletion| deletion.node_deletion_timeout_seconds);
    let since = machine.metadata.deletion_timestamp.as_ref();
    now.duration_since(failing) >= NODE_DELETION_TRIES
        && is_over(since, timeout.or(Some(NODE_DELETION_SECONDS)), now)
}

/// The Node is left if the whole cluster or the control plane is deleted, and if there is no control plane that could
/// serve the request.
pub(in crate::machine) fn node_fate(machine: &Machine, cluster: &Cluster, around: &ControlPlane) -> NodeFate {
    let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    let object = around.object.found();
    let is_all_going = cluster.metadata.deletion_timestamp.is_some() || object.is_some_and(is_deleting);
    let is_external = object.is_some_and(|object| flag(object, "/status/externalManagedControlPlane"));
    let is_served = is_external || around.machines > 0;
    if has_node && !is_all_going && is_served { NodeFate::Goes } else { NodeFate::Left }
}

/// Whether the Node is left only because the cluster has no control plane Machine. Then the Machine is deleted without
/// a drain, so the caller must verify this by a live read.
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
