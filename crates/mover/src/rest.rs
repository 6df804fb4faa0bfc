//! Keeps what is on its way still, and wakes it again.

use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use std::sync::Arc;

use crate::discover::{self, PARALLEL};
use crate::error::Result;
use crate::graph::{Graph, Object};
use crate::kinds::MovableKind;
use crate::mark::{self, Mark};
use crate::plane::MoveEndpoint;

/// Pauses and marks whatever would be reconciled on its own.
pub(crate) async fn rest(plane: &MoveEndpoint, graph: &Graph, mark: &Mark) -> Result<()> {
    let patches = graph.nodes.iter().filter(|node| node.rests_by_itself()).filter_map(|node| {
        // What is deleted already has nothing left to be paused for.
        let is_going = node.object.body.metadata.deletion_timestamp.is_some();
        let patch = mark::pause(node, mark).filter(|_| !is_going)?;
        Some((node, patch))
    });
    futures::stream::iter(patches.collect::<Vec<_>>())
        .map(|(node, patch)| patch_one(plane, &node.object, patch))
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

/// Takes marks and pauses off again, wherever they are: of Clusters last, so that they find everything else awake. Gives the
/// Clusters.
pub(crate) async fn release(
    plane: &MoveEndpoint,
    kinds: &[Arc<MovableKind>],
    mark: &Mark,
) -> Result<Vec<String>> {
    let custom: Vec<Arc<MovableKind>> = kinds.iter().filter(|kind| !kind.is_built_in()).cloned().collect();
    // In all namespaces: who was killed may have forgotten that a class of another one was part of it.
    let marked: Vec<(Object, Value)> = discover::list(plane, &custom, "")
        .await?
        .into_iter()
        .filter_map(|object| {
            let patch = mark::release(&object.kind, &object.body, mark)?;
            Some((object, patch))
        })
        .collect();
    let (clusters, others): (Vec<_>, Vec<_>) =
        marked.into_iter().partition(|(object, _)| object.kind.is_cluster());
    let names = clusters.iter().map(|(object, _)| object.title()).collect();
    for batch in [others, clusters] {
        futures::stream::iter(batch)
            .map(|(object, patch)| async move { patch_one(plane, &object, patch).await })
            .buffer_unordered(PARALLEL)
            .try_collect::<Vec<()>>()
            .await?;
    }
    Ok(names)
}

async fn patch_one(plane: &MoveEndpoint, object: &Object, patch: Value) -> Result<()> {
    plane.patch(object, &patch).await.map(|_| ())
}
