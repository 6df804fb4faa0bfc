//! Everything comes to the target, and is compared there.

use futures::{StreamExt as _, TryStreamExt as _};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::json;

use crate::copy::{copy, difference};
use crate::discover::{Arrived, PARALLEL};
use crate::error::{Doing as _, Error, Result};
use crate::graph::{Graph, Node, Object};
use crate::mark::Mark;
use crate::plane::MoveEndpoint;
use crate::progress::MoveProgress;
use crate::transfer::ordered;

/// What to do about an object that has been copied before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Update it to the current original.
    Replace,
    /// Leave it unchanged.
    Leave,
}

/// Makes what is missing at the target, owners first. Gives how many were there already.
pub(crate) async fn make(
    target: &MoveEndpoint,
    graph: &Graph,
    mark: &Mark,
    existing: Existing,
    report: &(dyn Fn(MoveProgress) + Send + Sync),
) -> Result<usize> {
    for namespace in namespaces(graph) {
        target.ensure_namespace(&namespace).await?;
    }
    let mut arrived = Arrived::read(target, graph).await?;
    let (mut done, mut left) = (0, 0);
    let all = graph.moving().count();
    for group in ordered(graph)? {
        let made: Vec<(usize, DynamicObject, bool)> = futures::stream::iter(&group)
            .map(|place| {
                let node = &graph.nodes[*place];
                let there = arrived.of(&node.object).cloned();
                let wanted = copy(node, mark, |owner| arrived.uid_of(&graph.nodes[owner].object));
                async move {
                    let was_there = there.is_some();
                    let body = make_one(target, node, there, &wanted, existing).await?;
                    Ok((*place, body, was_there))
                }
            })
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await?;
        done += made.len();
        for (place, body, was_there) in made {
            left += usize::from(was_there);
            arrived.put(&graph.nodes[place].object, body);
        }
        report(MoveProgress::Made(done, all));
    }
    Ok(left)
}

async fn make_one(
    target: &MoveEndpoint,
    node: &Node,
    there: Option<DynamicObject>,
    wanted: &DynamicObject,
    existing: Existing,
) -> Result<DynamicObject> {
    let object = &node.object;
    let there = match there {
        Some(there) => Some(there),
        None => match target.create(object, wanted).await? {
            Some(made) => return with_managers(target, object, made).await,
            None => target.get(&object.kind, object.namespace(), object.name()).await?,
        },
    };
    let Some(there) = there else {
        return Err(Error::refused(format!(
            "{} comes and goes at the target: run the same command again",
            object.title()
        )));
    };
    if node.shared || node.stays || existing == Existing::Leave {
        return Ok(there);
    }
    let there = match difference(wanted, &there) {
        None => there,
        Some(_) => {
            let mut replaced = wanted.clone();
            replaced.metadata.resource_version = there.resource_version();
            replaced.metadata.uid = there.uid();
            target.replace(object, &replaced).await?
        }
    };
    with_managers(target, object, there).await
}

/// Gives the fields back to those who own them at the source, so that they and not the move can take them away again.
async fn with_managers(target: &MoveEndpoint, object: &Object, made: DynamicObject) -> Result<DynamicObject> {
    let managers = |of: &DynamicObject| {
        // Status does not move, so nobody owns it.
        let mut managers = of.metadata.managed_fields.clone().unwrap_or_default();
        managers.retain(|entry| entry.subresource.is_none());
        managers
    };
    let wanted = managers(&object.body);
    let names = |of: &DynamicObject| {
        let mut names: Vec<_> =
            managers(of).into_iter().map(|entry| (entry.manager, entry.operation)).collect();
        names.sort();
        names
    };
    if wanted.is_empty() || names(&object.body) == names(&made) {
        return Ok(made);
    }
    let patch = json!({"metadata": {"managedFields": wanted, "resourceVersion": made.resource_version()}});
    match target.try_patch(object, &patch).await {
        // Somebody there has written meanwhile, such as a finalizer: then it stays as it is.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(made),
        patched => patched.doing(|| format!("cannot give {} back to its owners", object.title())),
    }
}

/// Compares everything with what is at the target, and gives how many objects that were.
pub(crate) async fn verify(target: &MoveEndpoint, graph: &Graph, mark: &Mark) -> Result<usize> {
    let arrived = Arrived::read(target, graph).await?;
    let mut reasons = Vec::new();
    let mut compared = 0;
    for node in graph.moving() {
        compared += 1;
        let title = node.object.title();
        match arrived.of(&node.object) {
            None => reasons.push(format!("{title} is not at the target: run the same command again")),
            Some(_) if node.shared || node.stays => {}
            Some(found) => {
                let wanted = copy(node, mark, |owner| arrived.uid_of(&graph.nodes[owner].object));
                if let Some(place) = difference(&wanted, found) {
                    reasons.push(format!(
                        "{title} is not the same at the target, in {place}: see who writes to it there, then run the same command again"
                    ));
                }
            }
        }
    }
    if reasons.is_empty() { Ok(compared) } else { Err(Error::Refused(reasons)) }
}

/// The namespaces of what moves.
fn namespaces(graph: &Graph) -> Vec<String> {
    let mut namespaces: Vec<String> = graph
        .moving()
        .map(|node| node.object.namespace().to_owned())
        .filter(|namespace| !namespace.is_empty())
        .collect();
    namespaces.sort();
    namespaces.dedup();
    namespaces
}
