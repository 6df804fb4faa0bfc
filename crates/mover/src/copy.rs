//! What an object becomes at the target, and whether it has become that. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::graph::{Graph, Node};
use crate::mark::{DELETE_FOR_MOVE, Mark, ORIGIN, pause_copy};

/// The object as it is made at the target. `uid_of` gives the new UID of an owner, by its place; an owner without one does
/// not move, and is left out.
///
/// Status is not among it: whoever looks after an object there finds it out again.
pub(crate) fn copy(node: &Node, mark: &Mark, uid_of: impl Fn(usize) -> Option<String>) -> DynamicObject {
    let source = &node.object.body;
    let mut annotations = source.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(DELETE_FOR_MOVE);
    annotations.insert(ORIGIN.to_owned(), node.object.uid().to_owned());
    let owners: Vec<OwnerReference> = node
        .owners
        .iter()
        .filter_map(|(place, owner)| Some(OwnerReference { uid: uid_of(*place)?, ..owner.clone() }))
        .collect();
    let mut data = source.data.clone();
    if let Some(fields) = data.as_object_mut() {
        fields.shift_remove("status");
    }
    let mut copy = DynamicObject {
        types: source.types.clone(),
        metadata: ObjectMeta {
            name: source.metadata.name.clone(),
            namespace: source.metadata.namespace.clone(),
            labels: source.metadata.labels.clone(),
            annotations: Some(annotations),
            finalizers: source.metadata.finalizers.clone(),
            owner_references: (!owners.is_empty()).then_some(owners),
            ..ObjectMeta::default()
        },
        data,
    };
    if node.rests_by_itself() {
        pause_copy(&node.object.kind, &mut copy, mark);
    }
    copy
}

/// The copies of everything that moves, by place. For comparing originals: owners keep their UIDs.
pub(crate) fn originals(graph: &Graph, mark: &Mark) -> BTreeMap<String, DynamicObject> {
    let uid_of = |place: usize| {
        let owner = &graph.nodes[place];
        owner.moves.then(|| owner.object.uid().to_owned())
    };
    graph.moving().map(|node| (node.object.uid().to_owned(), copy(node, mark, uid_of))).collect()
}

/// Where the object that was found is not the one that was wanted. What the server has added does not count.
pub(crate) fn difference(wanted: &DynamicObject, found: &DynamicObject) -> Option<String> {
    let map = |of: &Option<BTreeMap<String, String>>| {
        let fields = of.iter().flatten().map(|(key, value)| (key.clone(), Value::String(value.clone())));
        Value::Object(fields.collect())
    };
    let owners = |of: &DynamicObject| of.metadata.owner_references.clone().unwrap_or_default();
    let found_owners = owners(found);
    if let Some(missing) = owners(wanted).iter().find(|owner| !found_owners.contains(owner)) {
        return Some(format!("metadata.ownerReferences: {} {}", missing.kind, missing.name));
    }
    missing("metadata.labels", &map(&wanted.metadata.labels), &map(&found.metadata.labels))
        .or_else(|| {
            let (wanted, found) = (map(&wanted.metadata.annotations), map(&found.metadata.annotations));
            missing("metadata.annotations", &wanted, &found)
        })
        .or_else(|| missing("", &wanted.data, &found.data))
}

/// The first place where something of `wanted` is not in `found`.
fn missing(path: &str, wanted: &Value, found: &Value) -> Option<String> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted.iter().find_map(|(key, value)| {
            match found.get(key) {
                Some(found) => missing(&below(key), value, found),
                // A server may leave out what is empty.
                None if is_empty(value) => None,
                None => Some(below(key)),
            }
        }),
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => (0..wanted.len())
            .find_map(|index| missing(&format!("{path}[{index}]"), &wanted[index], &found[index])),
        _ if wanted == found => None,
        _ => Some(path.to_owned()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
