//! From one plane to another.
//!
//! Each step looks at what is there and does what is missing, so that all of them can be repeated: who was killed anywhere
//! begins at the top again. Until everything has been compared at the target, nothing at the source is deleted; until
//! everything is gone from the source, nothing at the target is looked after.

use futures::{StreamExt as _, TryStreamExt as _};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

use crate::arrive::{Existing, make, verify};
use crate::check;
use crate::copy::{copy, difference, originals};
use crate::discover::{self, Arrived, PARALLEL};
use crate::error::{Doing as _, Error, Result};
use crate::graph::{Graph, Node, Object};
use crate::kinds::MovableKind;
use crate::mark::{BLOCK_MOVE, DELETE_FOR_MOVE, Mark};
use crate::order;
use crate::plane::MoveEndpoint;
use crate::progress::MoveProgress;
use crate::rest::{release, rest};

/// How often a source that changes while it is copied is copied again.
const ATTEMPTS: usize = 5;
/// How often a write is tried again because somebody has written in between, as agents do to their reports.
const CONFLICTS: usize = 10;

/// Timeouts of a move.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// For providers that block the move of an object.
    pub blocked: Duration,
    /// For controllers to set the condition `Paused`. There may be none.
    pub paused: Duration,
    /// Between two reads.
    pub look: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            blocked: Duration::from_secs(600),
            paused: Duration::from_secs(10),
            look: Duration::from_secs(1),
        }
    }
}

/// A move from one plane to another.
pub struct Transfer<'a> {
    /// The plane that has the objects.
    pub source: MoveEndpoint,
    /// The plane that gets the objects.
    pub target: MoveEndpoint,
    /// The namespace whose clusters are moved.
    pub namespace: String,
    /// Timeouts.
    pub waits: Waits,
    /// Called at every step.
    pub report: &'a (dyn Fn(MoveProgress) + Send + Sync),
}

impl Transfer<'_> {
    /// The objects that would be moved, in the order of their creation. `Err` says why the move would be rejected.
    /// Nothing is written.
    pub async fn rehearse(&self) -> Result<Vec<String>> {
        let (_, kinds, graph) = self.checked().await?;
        drop(kinds);
        let groups = ordered(&graph)?;
        Ok(groups.iter().flatten().map(|place| graph.nodes[*place].object.title()).collect())
    }

    /// Moves the objects.
    pub async fn run(&self) -> Result<()> {
        let (mark, kinds, graph) = self.checked().await?;
        let is_resumed = graph.moving().any(|node| mark.is_on(&node.object.body));
        if is_resumed {
            (self.report)(MoveProgress::Resumed);
        }
        (self.report)(found(&graph));
        if graph.moving().next().is_some() {
            rest(&self.source, &graph, &mark).await?;
            (self.report)(MoveProgress::Paused);
            let graph = self.until_paused(&kinds, &mark).await?;
            let graph = self.copied(&kinds, graph, &mark).await?;
            self.deleted(&graph, &mark).await?;
        }
        // What stays at the source, because others need it, is theirs again.
        release(&self.source, &kinds, &mark).await?;
        // Also when there is nothing at the source any more: an earlier run may have come so far.
        let kinds = self.target.kinds().await?;
        let released = release(&self.target, &kinds, &mark).await?;
        if !released.is_empty() {
            (self.report)(MoveProgress::Released(released));
        }
        Ok(())
    }

    /// What there is, unless something speaks against moving it.
    async fn checked(&self) -> Result<(Mark, Vec<Arc<MovableKind>>, Graph)> {
        let mark = Mark { from: self.source.identity().await?, to: self.target.identity().await? };
        if mark.from == mark.to {
            return Err(Error::refused(
                "source and target are the same plane: pass the kubeconfig of another one",
            ));
        }
        let kinds = self.source.kinds().await?;
        let graph = discover::graph(&self.source, &kinds, &self.namespace).await?;
        let mut reasons = check::providers(&self.source.providers().await?, &self.target.providers().await?);
        let unknown = check::kinds(&graph, &self.target.kinds().await?);
        let knows_all = unknown.is_empty();
        reasons.extend(unknown);
        reasons.extend(check::objects(&graph, &mark));
        if knows_all {
            let arrived = Arrived::read(&self.target, &graph).await?;
            reasons.extend(check::collisions(&graph, |object| arrived.of(object)));
        }
        if let Err(circle) = order::groups(&graph) {
            reasons.push(circle_of(&circle));
        }
        match reasons.is_empty() {
            true => Ok((mark, kinds, graph)),
            false => Err(Error::Refused(reasons)),
        }
    }

    /// Waits until every provider says that its objects can go, and every controller that it has seen the pause.
    async fn until_paused(&self, kinds: &[Arc<MovableKind>], mark: &Mark) -> Result<Graph> {
        let start = Instant::now();
        let mut reported: Vec<String> = Vec::new();
        loop {
            let graph = discover::graph(&self.source, kinds, &self.namespace).await?;
            // What has come meanwhile rests too.
            rest(&self.source, &graph, mark).await?;
            let blocked: Vec<String> = graph
                .moving()
                .filter(|node| node.object.body.annotations().contains_key(BLOCK_MOVE))
                .map(|node| node.object.title())
                .collect();
            let busy = graph.moving().filter(|node| !says_paused(&node.object.body)).count();
            if blocked.is_empty() && (busy == 0 || start.elapsed() >= self.waits.paused) {
                if busy > 0 {
                    (self.report)(MoveProgress::NotPaused(busy));
                }
                return Ok(graph);
            }
            if start.elapsed() >= self.waits.blocked {
                return Err(Error::refused(format!(
                    "{} still has the annotation {BLOCK_MOVE}: see what its provider waits for, then run the same command again",
                    blocked.join(", ")
                )));
            }
            if !blocked.is_empty() && blocked != reported {
                (self.report)(MoveProgress::Blocked(blocked.clone()));
                reported = blocked;
            }
            sleep(self.waits.look).await;
        }
    }

    /// Makes everything at the target, and compares until both sides are the same. Gives what was compared.
    async fn copied(&self, kinds: &[Arc<MovableKind>], mut graph: Graph, mark: &Mark) -> Result<Graph> {
        for _ in 0..ATTEMPTS {
            make(&self.target, &graph, mark, Existing::Replace, self.report).await?;
            let fresh = discover::graph(&self.source, kinds, &self.namespace).await?;
            let still = originals(&fresh, mark) == originals(&graph, mark);
            if still {
                let compared = verify(&self.target, &fresh, mark).await?;
                (self.report)(MoveProgress::Verified(compared));
                return Ok(fresh);
            }
            graph = fresh;
        }
        Err(Error::refused(format!(
            "objects in namespace {} change while they are moved: see who writes to them, then run the same command again",
            self.namespace
        )))
    }

    async fn deleted(&self, graph: &Graph, mark: &Mark) -> Result<()> {
        let all = graph.moving().filter(|node| goes(node)).count();
        let originals = originals(graph, mark);
        let mut done = 0;
        for group in ordered(graph)?.into_iter().rev() {
            let going: Vec<&Node> =
                group.into_iter().map(|place| &graph.nodes[place]).filter(|node| goes(node)).collect();
            futures::stream::iter(&going)
                .map(|node| {
                    let known = originals.get(node.object.uid());
                    self.delete(node, mark, known)
                })
                .buffer_unordered(PARALLEL)
                .try_collect::<Vec<()>>()
                .await?;
            done += going.len();
            (self.report)(MoveProgress::Deleted(done, all));
        }
        Ok(())
    }

    /// Deletes one object, if it is still what was compared.
    async fn delete(&self, node: &Node, mark: &Mark, known: Option<&DynamicObject>) -> Result<()> {
        let object = &node.object;
        for _ in 0..CONFLICTS {
            let found = self.source.get(&object.kind, object.namespace(), object.name()).await?;
            let Some(found) = found.filter(|found| found.uid().as_deref() == Some(object.uid())) else {
                return Ok(());
            };
            let version = found.resource_version();
            let now = Node { object: Object { kind: object.kind.clone(), body: found }, ..node.clone() };
            let uids = |place: usize| {
                node.owners.iter().find(|(owner, _)| *owner == place).map(|(_, of)| of.uid.clone())
            };
            let is_known = known.is_some_and(|known| {
                difference(known, &copy(&now, mark, uids)).is_none()
                    && difference(&copy(&now, mark, uids), known).is_none()
            });
            if !is_known {
                return Err(Error::refused(format!(
                    "{} has changed at the source since it was copied: run the same command again",
                    object.title()
                )));
            }
            // Each of these writes may be the last one: what an earlier run has done is not done again.
            if !now.object.body.annotations().contains_key(DELETE_FOR_MOVE) {
                let sign =
                    json!({"metadata": {"resourceVersion": version, "annotations": {DELETE_FOR_MOVE: ""}}});
                match self.source.try_patch(object, &sign).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => continue,
                    Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                    signed => _ = signed.doing(|| format!("cannot sign {} as moved", object.title()))?,
                }
            }
            if now.object.body.metadata.deletion_timestamp.is_some() {
                return self.source.free(object).await;
            }
            return self.source.delete(object).await;
        }
        Err(Error::refused(format!(
            "{} changes all the time at the source: see who writes to it, then run the same command again",
            object.title()
        )))
    }
}

pub(crate) fn ordered(graph: &Graph) -> Result<Vec<Vec<usize>>> {
    order::groups(graph).map_err(|circle| Error::refused(circle_of(&circle)))
}

fn circle_of(circle: &[String]) -> String {
    format!("the owner references of {} form a cycle: fix them first", circle.join(", "))
}

pub(crate) fn found(graph: &Graph) -> MoveProgress {
    let clusters = graph.moving().filter(|node| node.object.kind.is_cluster()).count();
    MoveProgress::Found { clusters, objects: graph.moving().count() }
}

/// Whether it is deleted at the source.
fn goes(node: &Node) -> bool {
    !node.shared && !node.stays
}

/// Whether the condition `Paused`, where there is one, says so.
fn says_paused(object: &DynamicObject) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .all(|condition| condition["type"] != "Paused" || condition["status"] == "True")
}
