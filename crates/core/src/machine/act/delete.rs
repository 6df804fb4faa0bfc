//! Deletes a Machine stage by stage. Every stage is idempotent.

use capstan_api::conditions::reasons;
use capstan_api::core::{Cluster, Machine, MachineDeletionStatus};
use capstan_controller::drain::{self, Drain};
use capstan_controller::error::chain;
use capstan_controller::events::Tone;
use capstan_controller::{Error, Grounds, Next, Result, destroy};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use std::time::Duration;

use super::super::decide::delete::{
    Deletion, NodeFate, Progress, Situation, Stage, is_left_unserved, is_node_given_up, node_fate, stage,
};
use super::super::decide::node;
use super::super::observe::{self, Observed};
use super::{FirstFailures, Pauses};
use crate::Core;
use crate::external;
use crate::names::machine::reasons as machine_reasons;
use crate::names::{CHECK_LOGS, events};

/// Steps that are not repeated at every event.
const DRAIN: &str = "drain";
const VOLUMES: &str = "volumes";
/// Step whose first failure is recorded.
const NODE: &str = "node";
/// Pause before the next look at volumes that are attached.
const UNTIL_VOLUMES_ARE_DETACHED: Duration = Duration::from_secs(20);

/// Carries out all stages that are possible now. Records in the Machine since when each stage has been waiting.
pub(in crate::machine) async fn advance(
    core: &Core,
    looks: &Pauses,
    failures: &FirstFailures,
    machine: &mut Machine,
    observed: &Observed,
) -> Deletion {
    let fate = match fate(core, machine, &observed.cluster).await {
        Ok(fate) => fate,
        Err(problem) => return Deletion::failed(reasons::INTERNAL_ERROR, CHECK_LOGS, problem),
    };
    let mut progress = Progress::default();
    loop {
        let now = core.now();
        let (bootstrap, infrastructure) = (&observed.bootstrap, &observed.infrastructure);
        let is_between_looks = looks.waits(&look_key(machine, VOLUMES), now).is_some();
        let situation =
            Situation { machine, bootstrap, infrastructure, node: fate, progress, is_between_looks, now };
        match stage(&situation) {
            Stage::PreDrainHooks(hooks) => {
                started(&mut times(machine).wait_for_pre_drain_hook_start_time, now);
                let message = format!("Waiting for pre-drain hooks to succeed (hooks: {})", hooks.join(","));
                return Deletion::waiting(machine_reasons::WAITING_FOR_PRE_DRAIN_HOOK, message);
            }
            Stage::Drain => {
                started(&mut times(machine).node_drain_start_time, now);
                match drain_node(core, looks, machine, &observed.cluster).await {
                    Ok(drain::Outcome::Drained) => {
                        progress.drained = true;
                        if let Some(name) = node::name(machine) {
                            let message = format!("the pods of Node {name} are gone");
                            core.publish_event(&*machine, Tone::Normal, events::DRAINED, &message).await;
                        }
                    }
                    Ok(drain::Outcome::Waiting { message, next }) => {
                        let waiting = Deletion::waiting(machine_reasons::DRAINING_NODE, message);
                        return Deletion { result: Ok(next), ..waiting };
                    }
                    Err(problem) => {
                        let message = "Error draining Node, please check controller logs for errors";
                        return Deletion::failed(machine_reasons::DRAINING_NODE, message, problem);
                    }
                }
            }
            Stage::VolumeDetach => {
                started(&mut times(machine).wait_for_node_volume_detach_start_time, now);
                match attached_volumes(core, looks, machine, &observed.cluster).await {
                    Ok(None) => {
                        progress.detached = true;
                        if let Some(name) = node::name(machine) {
                            let message = format!("the volumes of Node {name} are detached");
                            core.publish_event(&*machine, Tone::Normal, events::DETACHED, &message).await;
                        }
                    }
                    Ok(Some((message, left))) => {
                        let waiting = Deletion::waiting(machine_reasons::WAITING_FOR_VOLUME_DETACH, message);
                        return Deletion { result: Ok(Next::After(left)), ..waiting };
                    }
                    Err(problem) => {
                        let message = "Error waiting for volumes to be detached from Node, please check controller logs for errors";
                        return Deletion::failed(
                            machine_reasons::WAITING_FOR_VOLUME_DETACH,
                            message,
                            problem,
                        );
                    }
                }
            }
            Stage::PreTerminateHooks(hooks) => {
                started(&mut times(machine).wait_for_pre_terminate_hook_start_time, now);
                let message =
                    format!("Waiting for pre-terminate hooks to succeed (hooks: {})", hooks.join(","));
                return Deletion::waiting(machine_reasons::WAITING_FOR_PRE_TERMINATE_HOOK, message);
            }
            Stage::Infrastructure { ask } => {
                let reference = Some(&machine.spec.infrastructure_ref);
                let reason = machine_reasons::WAITING_FOR_INFRASTRUCTURE_DELETION;
                return go(core, machine, reference, ask, reason).await;
            }
            Stage::Bootstrap { ask } => {
                let reference = machine.spec.bootstrap.config_ref.as_ref();
                let reason = machine_reasons::WAITING_FOR_BOOTSTRAP_DELETION;
                return go(core, machine, reference, ask, reason).await;
            }
            Stage::Unreadable => return Deletion::waiting(reasons::INTERNAL_ERROR, CHECK_LOGS),
            Stage::Node => match delete_node(core, machine).await {
                Ok(()) => progress.node_gone = true,
                Err(problem)
                    if is_node_given_up(machine, failures.failed(&look_key(machine, NODE), now), now) =>
                {
                    let (machine, error) = (machine.name_any(), chain(&problem));
                    tracing::warn!(
                        machine,
                        error,
                        "the Node is left behind: the time for its deletion is over"
                    );
                    progress.node_gone = true;
                }
                Err(problem) => {
                    let message = "Error deleting Node, please check controller logs for errors";
                    return Deletion::failed(machine_reasons::DELETING_NODE, message, problem);
                }
            },
            Stage::Done => {
                let done = Deletion::waiting(reasons::DELETION_COMPLETED, "Deletion completed");
                return Deletion { is_done: true, ..done };
            }
        }
    }
}

/// Whether the Node is deleted with its Machine, as read from the cache. Such a Node is drained through its API server.
/// If the Node is left only because the cluster has no control plane Machine, the Machine would be deleted without a
/// drain, so the control plane Machines are counted by a live read.
async fn fate(core: &Core, machine: &Machine, cluster: &Cluster) -> Result<NodeFate> {
    let mut around = observe::control_plane(core, machine, cluster).await?;
    if is_left_unserved(machine, cluster, &around) {
        around.machines = observe::control_plane_machines_now(core, machine).await?;
    }
    Ok(node_fate(machine, cluster, &around))
}

/// Requests the deletion of a provider's object, unless that is done already, and waits until the object is deleted.
async fn go(
    core: &Core,
    machine: &Machine,
    reference: Option<&capstan_api::meta::ContractVersionedObjectReference>,
    ask: bool,
    reason: &'static str,
) -> Deletion {
    let namespace = machine.namespace().unwrap_or_default();
    let kind = reference.map_or("", |reference| reference.kind.as_str());
    if let (true, Some(reference)) = (ask, reference)
        && let Err(problem) = external::delete(core, reference, &namespace).await
    {
        let message = format!("Failed to delete {kind}, please check controller logs for errors");
        return Deletion::failed(reasons::INTERNAL_ERROR, message, problem);
    }
    Deletion::waiting(reason, format!("Waiting for {kind} to be deleted"))
}

/// Continues the drain. Pods take their time, and every look at them is some requests: events of the Machine in between wait for
/// the next look.
async fn drain_node(
    core: &Core,
    looks: &Pauses,
    machine: &Machine,
    cluster: &Cluster,
) -> Result<drain::Outcome> {
    let Some(node) = node::name(machine) else { return Ok(drain::Outcome::Drained) };
    let (now, key) = (core.now(), look_key(machine, DRAIN));
    if let Some((left, Some(message))) = looks.waits(&key, now) {
        return Ok(drain::Outcome::Waiting { message, next: Next::After(left.unsigned_abs()) });
    }
    let client = workload(core, machine, || format!("cannot drain Node {node}")).await?;
    let deletion = machine.status.as_ref().and_then(|status| status.deletion.as_ref());
    let since = deletion.and_then(|deletion| deletion.node_drain_start_time.as_ref()).map(|time| time.0);
    let rules = drain::rules(&core.caches, machine, cluster).await?;
    let drain = Drain { node, mark: None, rules: &rules, since: since.unwrap_or(now), now };
    let outcome = drain::drain(client, drain, core.remotes.refusals()).await?;
    if let drain::Outcome::Waiting { message, next: Next::After(pause) } = &outcome {
        pause_until(looks, &key, *pause, message, now);
    }
    Ok(outcome)
}

/// The message about volumes that are still attached, and when to look again. Nothing if there are none.
async fn attached_volumes(
    core: &Core,
    looks: &Pauses,
    machine: &Machine,
    cluster: &Cluster,
) -> Result<Option<(String, Duration)>> {
    let Some(node) = node::name(machine) else { return Ok(None) };
    let (now, key) = (core.now(), look_key(machine, VOLUMES));
    if let Some((left, Some(message))) = looks.waits(&key, now) {
        return Ok(Some((message, left.unsigned_abs())));
    }
    let client = workload(core, machine, || format!("cannot see the volumes of Node {node}")).await?;
    let deletion = machine.status.as_ref().and_then(|status| status.deletion.as_ref());
    let since = deletion.and_then(|deletion| deletion.wait_for_node_volume_detach_start_time.as_ref());
    let since = since.map_or(now, |time| time.0);
    let rules = drain::rules(&core.caches, machine, cluster).await?;
    let message = drain::attached_volumes(client, node, &rules, since, now).await?;
    Ok(message.map(|message| {
        pause_until(looks, &key, UNTIL_VOLUMES_ARE_DETACHED, &message, now);
        (message, UNTIL_VOLUMES_ARE_DETACHED)
    }))
}

fn look_key(machine: &Machine, step: &str) -> String {
    format!("{}/{step}", machine.uid().unwrap_or_else(|| machine.name_any()))
}

fn pause_until(looks: &Pauses, key: &str, pause: Duration, message: &str, now: Timestamp) {
    let until = SignedDuration::try_from(pause).ok().and_then(|pause| now.checked_add(pause).ok());
    looks.answered(key, until.unwrap_or(now), Some(message.to_owned()), now);
}

async fn workload(core: &Core, machine: &Machine, doing: impl Fn() -> String) -> Result<Client> {
    let namespace = machine.namespace().unwrap_or_default();
    let client = core.remotes.client(&namespace, &machine.spec.cluster_name).await?;
    client.ok_or_else(|| Error::transient(doing(), "there is no connection to the workload cluster"))
}

async fn delete_node(core: &Core, machine: &Machine) -> Result<()> {
    let Some(name) = node::name(machine) else { return Ok(()) };
    let client = workload(core, machine, || format!("cannot delete Node {name}")).await?;
    destroy::delete_by_name(&Api::<Node>::all(client), name, &Grounds::asked("its Machine is deleted")).await
}

fn times(machine: &mut Machine) -> &mut MachineDeletionStatus {
    machine.status.get_or_insert_default().deletion.get_or_insert_default()
}

/// Sets the time in whole seconds, as the API stores it, unless it is set already.
fn started(time: &mut Option<Time>, now: Timestamp) {
    time.get_or_insert_with(|| Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
}
