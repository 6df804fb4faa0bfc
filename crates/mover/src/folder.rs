//! To a folder and back: one file for each object, named and filled as clusterctl does, so that either can read what the
//! other has written.

use capstan_files::Durability;
use kube::api::DynamicObject;
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arrive::{Existing, make};
use crate::check;
use crate::discover;
use crate::error::{Error, Result};
use crate::graph::{Graph, Object};
use crate::kinds::MovableKind;
use crate::mark::{FOLDER, Mark};
use crate::plane::MoveEndpoint;
use crate::progress::MoveProgress;
use crate::rest::{release, rest};
use crate::transfer::found;

/// Writes the clusters of a namespace to a folder. The clusters are paused meanwhile and continue afterwards: nothing
/// is deleted.
pub async fn to_folder(
    source: &MoveEndpoint,
    namespace: &str,
    folder: &Path,
    report: &(dyn Fn(MoveProgress) + Send + Sync),
) -> Result<()> {
    let mark = Mark { from: source.identity().await?, to: FOLDER.to_owned() };
    let kinds = source.kinds().await?;
    let graph = discover::graph(source, &kinds, namespace).await?;
    let mut reasons = check::objects(&graph, &mark);
    reasons.extend(strangers(folder, &graph)?);
    if !reasons.is_empty() {
        return Err(Error::Refused(reasons));
    }
    report(found(&graph));
    rest(source, &graph, &mark).await?;
    report(MoveProgress::Paused);
    // As it is now that nobody writes to it.
    let graph = discover::graph(source, &kinds, namespace).await?;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| file("cannot make", folder, source))?;
    for node in graph.moving() {
        write(&folder.join(file_name(&node.object)), &node.object.body)?;
    }
    capstan_files::sync_folder(folder).map_err(|source| file("cannot write", folder, source))?;
    let read = read(folder)?;
    let missing: Vec<String> = graph
        .moving()
        .filter(|node| !read.contains(&node.object.body))
        .map(|node| {
            format!("{} cannot be read back unchanged from {}", node.object.title(), folder.display())
        })
        .collect();
    if !missing.is_empty() {
        return Err(Error::Refused(missing));
    }
    report(MoveProgress::Verified(graph.moving().count()));
    let released = release(source, &kinds, &mark).await?;
    report(MoveProgress::Released(released));
    Ok(())
}

/// Creates the objects of a folder that do not exist, and ends their pause.
pub async fn from_folder(
    target: &MoveEndpoint,
    folder: &Path,
    report: &(dyn Fn(MoveProgress) + Send + Sync),
) -> Result<()> {
    let mark = Mark { from: FOLDER.to_owned(), to: target.identity().await? };
    let kinds = target.kinds().await?;
    let mut reasons = Vec::new();
    let mut objects = Vec::new();
    for mut body in read(folder)? {
        let kind = kind_of(&kinds, &body);
        match kind {
            Some(kind) => {
                unmark(&mut body);
                objects.push(Object { kind, body });
            }
            None => {
                let types = body.types.unwrap_or_default();
                reasons.push(format!(
                    "the target does not know {} ({}): install its provider there first, as with `capstan init`",
                    types.kind, types.api_version
                ));
            }
        }
    }
    reasons.sort();
    reasons.dedup();
    if !reasons.is_empty() {
        return Err(Error::Refused(reasons));
    }
    let mut graph = Graph::new(objects, "", &[]);
    for node in &mut graph.nodes {
        // Whoever wrote it there has chosen already.
        node.moves = true;
        node.stays = false;
    }
    report(found(&graph));
    let left = make(target, &graph, &mark, Existing::Leave, report).await?;
    if left > 0 {
        report(MoveProgress::Left(left));
    }
    let released = release(target, &kinds, &mark).await?;
    report(MoveProgress::Released(released));
    Ok(())
}

/// The mark of the way into the folder is not that of the way out.
fn unmark(body: &mut DynamicObject) {
    if let Some(annotations) = &mut body.metadata.annotations {
        let was_ours = annotations.remove(crate::mark::MOVE).is_some();
        let paused = capstan_api::meta::annotations::PAUSED;
        if was_ours && annotations.get(paused).is_some_and(|why| why == crate::mark::MOVE) {
            annotations.remove(paused);
        }
    }
}

/// In whatever version it was written: the same kind.
fn kind_of(kinds: &[Arc<MovableKind>], body: &DynamicObject) -> Option<Arc<MovableKind>> {
    let types = body.types.as_ref()?;
    let resource = |kind: &&Arc<MovableKind>| {
        kind.resource.kind == types.kind && kind.resource.api_version == types.api_version
    };
    kinds.iter().find(resource).cloned()
}

/// Files that would be read back, but are not of this move: of one that was killed all are.
fn strangers(folder: &Path, graph: &Graph) -> Result<Vec<String>> {
    let ours: BTreeSet<String> = graph.moving().map(|node| file_name(&node.object)).collect();
    let found = match files(folder) {
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        found => found?,
    };
    let is_strange =
        |path: &&PathBuf| !path.file_name().is_some_and(|name| ours.contains(&*name.to_string_lossy()));
    Ok(found
        .iter()
        .filter(is_strange)
        .map(|path| {
            format!(
                "{} is not part of this move and would be read back with it: use an empty folder",
                path.display()
            )
        })
        .collect())
}

fn file_name(object: &Object) -> String {
    format!("{}_{}_{}.yaml", object.kind.resource.kind, object.namespace(), object.name())
}

/// For its owner only: there are Secrets among them. The caller syncs the folder once, after the last file.
fn write(path: &Path, body: &DynamicObject) -> Result<()> {
    let failed = |source| file("cannot write", path, source);
    // JSON is YAML, and what clusterctl writes.
    let text = serde_json::to_vec(body).map_err(|error| failed(error.into()))?;
    capstan_files::write(path, &text, 0o600, Durability::Whole).map_err(|error| failed(error.source))
}

/// Every object in the folder.
fn read(folder: &Path) -> Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for path in files(folder)? {
        let text = std::fs::read_to_string(&path).map_err(|source| file("cannot read", &path, source))?;
        let unreadable = |error: &dyn std::fmt::Display| {
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            Error::refused(format!("{} is not a Kubernetes object: {first}", path.display()))
        };
        let object: DynamicObject = match serde_json::from_str(&text) {
            Ok(object) => object,
            Err(_) => serde_saphyr::from_str(&text).map_err(|error| unreadable(&error))?,
        };
        if object.types.is_none() || object.metadata.name.is_none() {
            return Err(unreadable(&"it has no kind or no name"));
        }
        objects.push(object);
    }
    Ok(objects)
}

/// The files that hold objects, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| file("cannot read", folder, source);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let holds =
            path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if holds {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn file(doing: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::File { doing, path: path.to_owned(), source }
}
