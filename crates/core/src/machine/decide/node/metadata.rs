//! Labels and annotations that a Machine propagates to its Node.
//!
//! A Machine manages only some labels of its Node. An annotation on the Node lists the managed ones, so that they can
//! be removed later.

use capstan_api::core::Machine;
use capstan_api::meta::labels::INTERRUPTIBLE;
use capstan_controller::owners;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

use super::taints::Taints;
use crate::names::node::{CLUSTER_NAME, CLUSTER_NAMESPACE, MACHINE, OWNER_KIND, OWNER_NAME};
use crate::node_sync::{KeyPattern, matches};

const LABELS_FROM_MACHINE: &str = "cluster.x-k8s.io/labels-from-machine";
const ANNOTATIONS_FROM_MACHINE: &str = "cluster.x-k8s.io/annotations-from-machine";
pub(super) const TAINTS_FROM_MACHINE: &str = "cluster.x-k8s.io/taints-from-machine";

/// Labels and annotations that identify the Machine of a Node. Every Node has them, so the annotation does not list
/// them.
const IDENTITY: [&str; 5] = [CLUSTER_NAME, CLUSTER_NAMESPACE, MACHINE, OWNER_KIND, OWNER_NAME];

/// Labels in this domain are managed on every Node.
const MANAGED_DOMAIN: &str = "node.cluster.x-k8s.io";
/// Labels in this domain cannot be set by a kubelet itself.
const RESTRICTED_DOMAIN: &str = "node-restriction.kubernetes.io";
const ROLE_DOMAIN: &str = "node-role.kubernetes.io";

/// Changes of a map: the new value, or `None` to remove the key.
pub(super) type Changes = BTreeMap<String, Option<String>>;

pub(super) struct Labels {
    pub(super) changes: Changes,
    from_machine: String,
}

pub(super) fn labels(node: &Node, machine: &Machine, interruptible: bool, more: &[KeyPattern]) -> Labels {
    let is_ours = |key: &str| {
        let domain = key.split('/').next().unwrap_or_default();
        domain == ROLE_DOMAIN
            || is_within(domain, RESTRICTED_DOMAIN)
            || is_within(domain, MANAGED_DOMAIN)
            || matches(more, key)
    };
    let mut wanted: BTreeMap<_, _> = machine.labels().clone();
    wanted.retain(|key, _| is_ours(key));
    if interruptible {
        wanted.insert(INTERRUPTIBLE.to_owned(), String::new());
    }
    let before = listed(node, LABELS_FROM_MACHINE);
    let from_machine = wanted.keys().cloned().collect::<Vec<_>>().join(",");
    Labels { changes: changes(node.labels(), &wanted, before), from_machine }
}

pub(super) fn annotations(
    node: &Node,
    machine: &Machine,
    labels: &Labels,
    taints: &Taints,
    more: &[KeyPattern],
) -> Changes {
    let domain = |key: &str| key.split('/').next().unwrap_or_default().to_owned();
    let mut wanted: BTreeMap<_, _> = machine.annotations().clone();
    wanted.retain(|key, _| is_within(&domain(key), MANAGED_DOMAIN) || matches(more, key));
    let from_machine = wanted.keys().cloned().collect::<Vec<_>>().join(",");

    let namespace = machine.namespace().unwrap_or_default();
    let mut add = |key: &str, value: &str| wanted.insert(key.to_owned(), value.to_owned());
    add(CLUSTER_NAME, &machine.spec.cluster_name);
    add(CLUSTER_NAMESPACE, &namespace);
    add(MACHINE, &machine.name_any());
    if let Some(owner) = owners::controller_of(&machine.metadata) {
        add(OWNER_KIND, &owner.kind);
        add(OWNER_NAME, &owner.name);
    }
    add(LABELS_FROM_MACHINE, &labels.from_machine);
    add(ANNOTATIONS_FROM_MACHINE, &from_machine);
    add(TAINTS_FROM_MACHINE, &taints.from_machine);
    let before = listed(node, ANNOTATIONS_FROM_MACHINE).chain(IDENTITY);
    changes(node.annotations(), &wanted, before)
}

/// The differences to the desired map, with the removal of keys that `before` lists and that are not desired.
fn changes<'a>(
    present: &BTreeMap<String, String>,
    wanted: &BTreeMap<String, String>,
    before: impl Iterator<Item = &'a str>,
) -> Changes {
    let gone = before
        .filter(|key| !wanted.contains_key(*key) && present.contains_key(*key))
        .map(|key| (key.to_owned(), None));
    let set = wanted
        .iter()
        .filter(|(key, value)| present.get(*key) != Some(value))
        .map(|(key, value)| (key.clone(), Some(value.clone())));
    gone.chain(set).collect()
}

fn listed<'a>(node: &'a Node, annotation: &str) -> impl Iterator<Item = &'a str> {
    let list = node.annotations().get(annotation).map_or("", String::as_str);
    list.split(',').filter(|key| !key.is_empty())
}

fn is_within(domain: &str, parent: &str) -> bool {
    domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
}
