//! In which order a MachinePool goes: the two objects that it refers to, its Nodes, itself. Pure.

use capstan_api::conditions::reasons;
use capstan_api::core::MachinePool;
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::text::listed;
use capstan_controller::{Knowledge, Next};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use std::sync::Arc;
use std::time::Duration;

use super::nodes;
use super::ownership::other_controller;
use crate::external::{Reading, is_deleting};
use crate::machinepool::observe::Observed;
use crate::names::CHECK_LOGS;

/// How long Nodes are tried to be deleted if the pool does not say. Upstream fills it in with a webhook.
const NODE_DELETION_SECONDS: i32 = 10;
/// Requeue while Nodes cannot be deleted.
const UNTIL_THE_NEXT_TRY: Duration = Duration::from_secs(2);
/// How many Nodes a message names.
const NAMES: usize = 5;

/// The next step of the deletion, and the condition about it.
#[derive(Clone, Debug)]
pub(in crate::machinepool) struct Deletion {
    pub(in crate::machinepool) reason: &'static str,
    pub(in crate::machinepool) message: String,
    /// Objects whose deletion is asked for.
    pub(in crate::machinepool) objects: Vec<ContractVersionedObjectReference>,
    pub(in crate::machinepool) nodes: Vec<Arc<Node>>,
    pub(in crate::machinepool) is_done: bool,
    pub(in crate::machinepool) next: Next,
}

impl Deletion {
    fn waiting(reason: &'static str, message: impl Into<String>) -> Self {
        let (objects, nodes) = (Vec::new(), Vec::new());
        Self { reason, message: message.into(), objects, nodes, is_done: false, next: Next::Changed }
    }

    /// Nothing is left.
    pub(in crate::machinepool) fn done() -> Self {
        Self { is_done: true, ..Self::waiting(reasons::DELETION_COMPLETED, "Deletion completed") }
    }
}

pub(in crate::machinepool) fn decide(pool: &MachinePool, observed: &Observed, now: Timestamp) -> Deletion {
    objects(pool, observed).or_else(|| nodes(pool, observed, now)).unwrap_or_else(Deletion::done)
}

/// Both objects go at the same time.
fn objects(pool: &MachinePool, observed: &Observed) -> Option<Deletion> {
    let spec = &pool.spec.template.spec;
    let references = [
        (spec.bootstrap.config_ref.as_ref(), &observed.bootstrap),
        (Some(&spec.infrastructure_ref), &observed.infrastructure),
    ];
    let (mut kinds, mut doomed) = (Vec::new(), Vec::new());
    for (reference, reading) in references {
        let Some(reference) = reference else { continue };
        match reading {
            Reading::Unreferenced | Reading::Missing => {}
            Reading::Unreadable => return Some(Deletion::waiting(reasons::INTERNAL_ERROR, CHECK_LOGS)),
            // Another pool works with it.
            Reading::Found(object) if other_controller(pool, object).is_some() => {}
            Reading::Found(object) => {
                kinds.push(reference.kind.as_str());
                doomed.extend((!is_deleting(object)).then(|| reference.clone()));
            }
        }
    }
    if kinds.is_empty() {
        return None;
    }
    let message = format!("Waiting for {} to be deleted", kinds.join(" and "));
    Some(Deletion { objects: doomed, ..Deletion::waiting(reasons::DELETING, message) })
}

/// The Nodes, unless they go with their cluster or there was time enough.
fn nodes(pool: &MachinePool, observed: &Observed, now: Timestamp) -> Option<Deletion> {
    if observed.cluster.metadata.deletion_timestamp.is_some() || is_given_up(pool, now) {
        return None;
    }
    let waiting = |message: String| Deletion {
        next: Next::After(UNTIL_THE_NEXT_TRY),
        ..Deletion::waiting(reasons::DELETING, message)
    };
    match (&observed.nodes, &observed.machines) {
        (Knowledge::Known(all), Knowledge::Known(machines)) => {
            let left = nodes::of_pool(pool, all, machines);
            let names: Vec<String> = left.iter().map(|node| node.name_any()).collect();
            let message = format!("Deleting Nodes {}", listed(&names, NAMES));
            (!left.is_empty()).then(|| Deletion { nodes: left, ..waiting(message) })
        }
        // It has never had any.
        _ if nodes::refs(pool).is_empty() => None,
        (Knowledge::Unknown(why), _) | (_, Knowledge::Unknown(why)) => {
            Some(waiting(format!("Waiting to delete the Nodes: {why}")))
        }
    }
}

/// Whether the time for the deletion of Nodes is over. Zero is no limit.
fn is_given_up(pool: &MachinePool, now: Timestamp) -> bool {
    let spec = pool.spec.template.spec.deletion.as_ref();
    let limit = spec.and_then(|deletion| deletion.node_deletion_timeout_seconds);
    let limit = limit.unwrap_or(NODE_DELETION_SECONDS);
    let since = pool.metadata.deletion_timestamp.as_ref();
    limit > 0
        && since.is_some_and(|since| now.duration_since(since.0) >= SignedDuration::from_secs(limit.into()))
}
