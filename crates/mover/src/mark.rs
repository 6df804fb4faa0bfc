//! The mark of a move, which pauses objects and records the move. Pure.
//!
//! The mark is the journal of a move: it is written to the roots at the source before anything is copied, is copied
//! with them, and is removed at the target at the end. It names the move that has paused the object, so that the move
//! can continue.

use capstan_api::meta::annotations;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::fmt;

use crate::graph::Node;
use crate::kinds::MovableKind;

/// Annotation: the object is being moved from one plane to another.
pub const MOVE: &str = "capstan.dev/move";
/// Annotation: the UID of the original of a copied object.
pub const ORIGIN: &str = "capstan.dev/moved-from";
/// Annotation that clusterctl gives to what it deletes because it was moved.
pub(crate) const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Annotation by which a provider asks for time before an object is moved.
pub(crate) const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
/// What the pause annotation says when the pause is ours.
const OUR_PAUSE: &str = MOVE;

/// Stands for a folder, which has no identity of its own.
pub(crate) const FOLDER: &str = "folder";

/// From where to where something is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) from: String,
    pub(crate) to: String,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.from, self.to)
    }
}

impl Mark {
    /// Whether an object carries it.
    pub(crate) fn is_on(&self, object: &DynamicObject) -> bool {
        object.annotations().get(MOVE).is_some_and(|mark| *mark == self.to_string())
    }
}

/// Whether a Cluster or another root is paused, by whoever.
pub(crate) fn is_paused(kind: &MovableKind, object: &DynamicObject) -> bool {
    kind.is_cluster() && object.data["spec"]["paused"] == true
        || object.annotations().contains_key(annotations::PAUSED)
}

/// The patch that pauses and marks an object; `None` when it is so already.
pub(crate) fn pause(node: &Node, mark: &Mark) -> Option<Value> {
    let object = &node.object.body;
    if mark.is_on(object) && is_paused(&node.object.kind, object) {
        return None;
    }
    Some(match node.object.kind.is_cluster() {
        true => json!({"metadata": {"annotations": {MOVE: mark.to_string()}}, "spec": {"paused": true}}),
        // Somebody else's pause stays theirs.
        false if object.annotations().contains_key(annotations::PAUSED) => {
            json!({"metadata": {"annotations": {MOVE: mark.to_string()}}})
        }
        false => {
            json!({"metadata": {"annotations": {MOVE: mark.to_string(), annotations::PAUSED: OUR_PAUSE}}})
        }
    })
}

/// Does to a copy what [`pause`] does to the original.
pub(crate) fn pause_copy(kind: &MovableKind, copy: &mut DynamicObject, mark: &Mark) {
    let annotations = copy.metadata.annotations.get_or_insert_default();
    annotations.insert(MOVE.to_owned(), mark.to_string());
    match kind.is_cluster() {
        true => copy.data["spec"]["paused"] = json!(true),
        false => {
            annotations.entry(annotations::PAUSED.to_owned()).or_insert_with(|| OUR_PAUSE.to_owned());
        }
    }
}

/// The patch that takes mark and pause off; `None` when the object does not carry this mark.
pub(crate) fn release(kind: &MovableKind, object: &DynamicObject, mark: &Mark) -> Option<Value> {
    if !mark.is_on(object) {
        return None;
    }
    let mut taken = json!({MOVE: null});
    if object.annotations().get(annotations::PAUSED).is_some_and(|why| why == OUR_PAUSE) {
        taken[annotations::PAUSED] = Value::Null;
    }
    let mut patch = json!({"metadata": {"annotations": taken}});
    if kind.is_cluster() {
        patch["spec"] = json!({"paused": null});
    }
    Some(patch)
}
