//! The Nodes of a MachinePool: which they are, what is written to them, and which are deleted. Pure.

use capstan_api::core::{Machine, MachinePool, PoolNodeReference};
use capstan_controller::Next;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::names::node::{CLUSTER_NAME, CLUSTER_NAMESPACE, OWNER_KIND, OWNER_NAME, UNINITIALIZED};

const KIND: &str = "MachinePool";

/// The Nodes with the provider IDs of a pool.
#[derive(Clone, Debug)]
pub(in crate::machinepool) struct Matched {
    pub(in crate::machinepool) nodes: Vec<Arc<Node>>,
    pub(in crate::machinepool) refs: Vec<PoolNodeReference>,
    pub(in crate::machinepool) ready: i32,
    /// Ready for at least `minReadySeconds`.
    pub(in crate::machinepool) available: i32,
    /// When another Node will have been ready for long enough.
    pub(in crate::machinepool) next: Next,
}

/// Finds the Nodes of the pool, in the order of its provider IDs.
pub(in crate::machinepool) fn matched(pool: &MachinePool, nodes: &[Arc<Node>], now: Timestamp) -> Matched {
    let needed = SignedDuration::from_secs(pool.spec.template.spec.min_ready_seconds.unwrap_or(0).into());
    let mut matched =
        Matched { nodes: Vec::new(), refs: Vec::new(), ready: 0, available: 0, next: Next::Changed };
    let by_id = by_provider_id(nodes);
    for id in &pool.spec.provider_id_list {
        let Some(node) = by_id.get(id.as_str()) else { continue };
        matched.nodes.push(Arc::clone(node));
        matched.refs.push(reference(node));
        let Some(since) = ready_since(node) else { continue };
        matched.ready += 1;
        let left = needed - now.duration_since(since);
        match left.is_positive() {
            true => matched.next = matched.next.or(Next::After(left.unsigned_abs())),
            false => matched.available += 1,
        }
    }
    matched
}

/// Nodes by their provider IDs, of which there may be thousands. Of two Nodes with one ID the newer one is what has become of the
/// machine.
pub(in crate::machinepool) fn by_provider_id(nodes: &[Arc<Node>]) -> HashMap<&str, &Arc<Node>> {
    let mut by_id: HashMap<&str, &Arc<Node>> = HashMap::with_capacity(nodes.len());
    for node in nodes {
        let Some(id) = provider_id(node) else { continue };
        if by_id.get(id).is_none_or(|other| created(node) > created(other)) {
            by_id.insert(id, node);
        }
    }
    by_id
}

fn created(node: &Node) -> Option<Timestamp> {
    node.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn reference(node: &Node) -> PoolNodeReference {
    PoolNodeReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.name_any()),
        uid: node.uid(),
        ..PoolNodeReference::default()
    }
}

/// Since when the Node has been ready, if it is.
fn ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().rfind(|condition| condition.type_ == "Ready")?;
    let since = ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    (ready.status == "True").then_some(since)
}

/// Nodes of machines that have left the pool. Nodes of Machines are not among them: they go with their Machine, after the
/// drain.
pub(in crate::machinepool) fn retired(
    pool: &MachinePool,
    nodes: &[Arc<Node>],
    machines: &[Machine],
) -> Vec<Arc<Node>> {
    let listed: HashSet<&str> = pool.spec.provider_id_list.iter().map(String::as_str).collect();
    let left = of_pool(pool, nodes, machines).into_iter();
    // Of a Node without a provider ID it is unknown which machine it is.
    left.filter(|node| provider_id(node).is_some_and(|id| !listed.contains(id))).collect()
}

/// Nodes that the pool has had or has, without those of Machines.
pub(in crate::machinepool) fn of_pool<'a>(
    pool: &MachinePool,
    nodes: &[Arc<Node>],
    machines: &'a [Machine],
) -> Vec<Arc<Node>> {
    // By UID: another machine may have been given the name.
    let uids: HashSet<&str> = refs(pool).iter().filter_map(|reference| reference.uid.as_deref()).collect();
    let is_referred_to = |node: &Node| node.metadata.uid.as_deref().is_some_and(|uid| uids.contains(uid));
    let of_machine = |machine: &'a Machine| {
        let name = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
        (name.map(|reference| reference.name.as_str()), machine.spec.provider_id.as_deref())
    };
    let names: HashSet<&str> = machines.iter().filter_map(|machine| of_machine(machine).0).collect();
    let ids: HashSet<&str> = machines.iter().filter_map(|machine| of_machine(machine).1).collect();
    let has_machine = |node: &Node| {
        node.metadata.name.as_deref().is_some_and(|name| names.contains(name))
            || provider_id(node).is_some_and(|id| ids.contains(id))
    };
    let is_of_pool = |node: &Node| (is_referred_to(node) || is_marked(pool, node)) && !has_machine(node);
    nodes.iter().filter(|node| is_of_pool(node)).cloned().collect()
}

/// Whether the annotations of a Node name the pool. References are in status, which a move drops; annotations are not.
fn is_marked(pool: &MachinePool, node: &Node) -> bool {
    marks(pool).iter().all(|(key, value)| node.annotations().get(*key) == Some(value))
}

fn marks(pool: &MachinePool) -> [(&'static str, String); 4] {
    [
        (CLUSTER_NAME, pool.spec.cluster_name.clone()),
        (CLUSTER_NAMESPACE, pool.namespace().unwrap_or_default()),
        (OWNER_KIND, KIND.to_owned()),
        (OWNER_NAME, pool.name_any()),
    ]
}

/// What to send so that a Node has the annotations of the pool and may be used by pods. Taints are replaced whole, so it goes
/// with the resource version.
pub(in crate::machinepool) fn patch(pool: &MachinePool, node: &Node) -> Option<Value> {
    let missing = marks(pool).into_iter().filter(|(key, value)| node.annotations().get(*key) != Some(value));
    let missing: Map<String, Value> = missing.map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let mut taints = present.clone();
    taints.retain(|taint| (taint.key.as_str(), taint.effect.as_str()) != UNINITIALIZED);
    let mut patch = json!({"metadata": {"resourceVersion": node.resource_version()}});
    if missing.is_empty() && taints == present {
        return None;
    }
    if !missing.is_empty() {
        patch["metadata"]["annotations"] = Value::Object(missing);
    }
    if taints != present {
        patch["spec"] = json!({ "taints": taints });
    }
    Some(patch)
}

/// Whether an event of this Node may concern the pool.
pub(in crate::machinepool) fn may_be_of(pool: &MachinePool, name: &str, provider_id: Option<&str>) -> bool {
    let is_listed = |id: &str| pool.spec.provider_id_list.iter().any(|listed| listed == id);
    provider_id.is_some_and(is_listed)
        || refs(pool).iter().any(|reference| reference.name.as_deref() == Some(name))
}

/// Names of the Nodes that the status refers to.
pub(in crate::machinepool) fn names(pool: &MachinePool) -> Vec<String> {
    refs(pool).iter().filter_map(|reference| reference.name.clone()).collect()
}

pub(in crate::machinepool) fn refs(pool: &MachinePool) -> &[PoolNodeReference] {
    pool.status.as_ref().map(|status| status.node_refs.as_slice()).unwrap_or_default()
}

pub(in crate::machinepool) fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}
