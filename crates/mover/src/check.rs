//! Why a move must not begin: one line each, with the object and the remedy. Pure.

use capstan_api::clusterctl::Provider;
use capstan_api::meta::annotations;
use capstan_text::Version;
use kube::ResourceExt as _;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::{Graph, Object};
use crate::kinds::{CLUSTER_GROUP, MovableKind};
use crate::mark::{DELETE_FOR_MOVE, MOVE, Mark, ORIGIN, is_paused};

/// What is wrong with the objects themselves.
pub(crate) fn objects(graph: &Graph, mark: &Mark) -> Vec<String> {
    graph.moving().filter_map(|node| object(&node.object, mark)).collect()
}

fn object(object: &Object, mark: &Mark) -> Option<String> {
    let title = object.title();
    let body = &object.body;
    let other = body.annotations().get(MOVE).filter(|_| !mark.is_on(body));
    if let Some(other) = other {
        return Some(format!(
            "{title} is on its way elsewhere (annotation {MOVE}: {other}): finish that move with the command that began it"
        ));
    }
    let was_deleted = body.metadata.deletion_timestamp.is_some();
    if was_deleted && !body.annotations().contains_key(DELETE_FOR_MOVE) {
        return Some(format!("{title} is being deleted: wait until it is gone"));
    }
    let is_head = object.kind.is_cluster() || object.kind.is_class();
    if is_head && !mark.is_on(body) && is_paused(&object.kind, body) {
        let how = match body.annotations().contains_key(annotations::PAUSED) {
            true => format!("remove its annotation {}", annotations::PAUSED),
            false => "set its spec.paused to false".to_owned(),
        };
        return Some(format!("{title} is paused, so its status may be stale: {how} first"));
    }
    if object.kind.is_cluster() {
        return cluster(object).map(|why| format!("{title} {why}"));
    }
    let is_machine = object.kind.is(CLUSTER_GROUP, "Machine");
    if is_machine && body.data["status"]["nodeRef"]["name"].as_str().is_none() {
        return Some(format!(
            "{title} has no Node yet: wait until it has, or delete it (see `capstan why machine/{} -n {}`)",
            object.name(),
            object.namespace()
        ));
    }
    None
}

fn cluster(cluster: &Object) -> Option<String> {
    let status = &cluster.body.data["status"];
    let remedy =
        || format!("wait until it has (see `capstan why {} -n {}`)", cluster.name(), cluster.namespace());
    let initialization = &status["initialization"];
    if initialization["infrastructureProvisioned"] != true {
        return Some(format!("has no infrastructure yet: {}", remedy()));
    }
    let conditions = status["conditions"].as_array();
    let initialized = conditions.into_iter().flatten().any(|condition: &Value| {
        condition["type"] == "ControlPlaneInitialized" && condition["status"] == "True"
    });
    let has_control_plane = !cluster.body.data["spec"]["controlPlaneRef"].is_null();
    if !initialized || has_control_plane && initialization["controlPlaneInitialized"] != true {
        return Some(format!("has no working control plane yet: {}", remedy()));
    }
    None
}

/// Which providers the target lacks, or has in an older version.
pub(crate) fn providers(source: &[Provider], target: &[Provider]) -> Vec<String> {
    source.iter().filter_map(|provider| lacking(provider, target)).collect()
}

fn lacking(provider: &Provider, target: &[Provider]) -> Option<String> {
    let name = provider.name_any();
    let version = provider.spec.version.as_deref().unwrap_or_default();
    let same = |other: &&Provider| {
        other.spec.provider_name == provider.spec.provider_name && other.spec.type_ == provider.spec.type_
    };
    let found: Vec<&str> =
        target.iter().filter(same).map(|other| other.spec.version.as_deref().unwrap_or_default()).collect();
    let newest = found.iter().filter_map(|version| Version::parse(version)).max();
    match (Version::parse(version), newest) {
        (_, None) if found.is_empty() => Some(format!(
            "provider {name} is missing at the target: install it there, as with `capstan init` or `clusterctl init`"
        )),
        (None, _) => {
            Some(format!("provider {name} at the source has no version that can be read ({version:?})"))
        }
        (_, None) => {
            Some(format!("provider {name} at the target has no version that can be read ({found:?})"))
        }
        (Some(wanted), Some(newest)) if newest < wanted => Some(format!(
            "provider {name} at the target is {newest}, older than {wanted} at the source: upgrade it there first"
        )),
        _ => None,
    }
}

/// Which kinds that move the target does not serve, in the version they move in.
pub(crate) fn kinds(graph: &Graph, target: &[Arc<MovableKind>]) -> Vec<String> {
    let served: BTreeSet<(&str, &str)> =
        target.iter().map(|kind| (kind.resource.api_version.as_str(), kind.resource.kind.as_str())).collect();
    let needed: BTreeSet<(&str, &str)> = graph
        .moving()
        .map(|node| {
            let resource = &node.object.kind.resource;
            (resource.api_version.as_str(), resource.kind.as_str())
        })
        .collect();
    needed
        .difference(&served)
        .map(|(version, kind)| {
            format!("the target does not know {kind} ({version}): install its provider there first, as with `capstan init`")
        })
        .collect()
}

/// Which objects are in the way at the target: they have the name of one that moves, and are another one.
pub(crate) fn collisions<'a>(
    graph: &Graph,
    at_target: impl Fn(&Object) -> Option<&'a kube::api::DynamicObject>,
) -> Vec<String> {
    graph
        .moving()
        .filter(|node| !node.shared)
        .filter_map(|node| {
            let found = at_target(&node.object)?;
            let is_copy = found.annotations().get(ORIGIN).is_some_and(|uid| uid == node.object.uid());
            // A class that stays may have come with an earlier move.
            (!is_copy && !node.stays).then(|| {
                format!(
                    "{} exists at the target and is another one: rename or delete it there",
                    node.object.title()
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
