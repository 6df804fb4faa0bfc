//! Changes of the version of a cluster.

use crate::contract;
use crate::field;
use crate::metadata::UNSAFE_VERSION;
use crate::object;
use crate::upgrade::{Hook, Hooks, parse};
use capstan_api::core::{Cluster, ClusterClass};
use capstan_apiserver_schema::FieldError;
use semver::{Prerelease, Version};
use serde_json::Value;

/// The objects of a cluster whose version changes.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The control plane.
    pub control_plane: &'a Value,
    /// MachineDeployments and MachinePools of the topology.
    pub workers: Vec<Rollout<'a>>,
    /// Hooks of the cluster.
    pub hooks: &'a Hooks,
}

/// A group of workers, and whether a machine of it has another version.
#[derive(Clone, Copy, Debug)]
pub struct Rollout<'a> {
    /// The MachineDeployment or MachinePool.
    pub object: &'a Value,
    /// Whether a machine of it has another version.
    pub is_upgrading: bool,
}

const AT: &str = "spec.topology.version";

/// The error of a change of the version, if there is one.
pub(super) fn check(
    cluster: &Cluster,
    old: &str,
    new: &str,
    class: &ClusterClass,
    facts: Option<&Facts<'_>>,
) -> Option<FieldError> {
    let annotations = cluster.metadata.annotations.as_ref();
    if annotations.is_some_and(|annotations| annotations.contains_key(UNSAFE_VERSION)) {
        return None;
    }
    // A text that is not a version is refused elsewhere.
    let (from, to) = (parse(old).ok()?, parse(new).ok()?);
    if from == to {
        return None;
    }
    let refuse = |why: String| Some(field::invalid(AT, new, why));
    let plain = |version: &Version| Version { pre: Prerelease::EMPTY, ..version.clone() };
    if plain(&to).cmp_precedence(&plain(&from)).is_lt() {
        return refuse(format!("cannot go back from v{from}"));
    }
    let external = class.spec.upgrade.as_ref().and_then(|upgrade| upgrade.external.as_ref());
    let has_plan = external.is_some_and(|external| external.generate_upgrade_plan_extension.is_some());
    let is_limited = class.spec.kubernetes_versions.is_empty() && !has_plan;
    if is_limited && (to.major != from.major || to.minor > from.minor + 1) {
        return refuse(format!(
            "cannot skip a minor version from v{from}, unless the ClusterClass has kubernetesVersions"
        ));
    }
    let facts = facts?;
    if facts.hooks.pending.contains(&Hook::AfterClusterUpgrade) {
        return refuse("the upgrade before is not finished: hook AfterClusterUpgrade is pending".to_string());
    }
    let reasons = unfinished(facts, &from);
    if reasons.is_empty() {
        return None;
    }
    refuse(format!("the upgrade before is not finished: {}", reasons.join("; ")))
}

/// Why the cluster has not its version yet.
fn unfinished(facts: &Facts<'_>, from: &Version) -> Vec<String> {
    let mut reasons = Vec::new();
    let version = object::text(facts.control_plane, contract::VERSION);
    if parse(version).as_ref() != Ok(from) {
        reasons.push(format!("the control plane has version {version}"));
    }
    if contract::is_provisioning(facts.control_plane) {
        reasons.push("the control plane is being created".to_string());
    } else if contract::is_upgrading(facts.control_plane) != Ok(false) {
        reasons.push("the control plane is upgrading".to_string());
    }
    let behind = facts.workers.iter().filter(|one| {
        let version = object::text(one.object, &["spec", "template", "spec", "version"]);
        one.is_upgrading || parse(version).as_ref() != Ok(from)
    });
    let names: Vec<&str> = behind.map(|one| object::name(one.object)).collect();
    if !names.is_empty() {
        reasons.push(format!("workers are upgrading: {}", names.join(", ")));
    }
    reasons
}
