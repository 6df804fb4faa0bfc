//! The version of a group of workers.

use super::{ControlPlaneProgress, UpgradeError, WorkersProgress};
use crate::metadata::{DEFER_UPGRADE, HOLD_UPGRADE_SEQUENCE};
use capstan_api::meta::TemplateMetadata;

/// A group of workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    /// Name in the topology.
    pub(crate) topology_name: &'a str,
    /// Name and version of its object, if it exists.
    pub(crate) current: Option<(&'a str, &'a str)>,
    /// Whether the topology says that its upgrade waits.
    pub(crate) is_deferred: bool,
}

/// The version that a group gets now. Records in `workers` what it waits for. Groups are asked in the order of the
/// topology, because only some of them may upgrade at the same time.
///
/// # Errors
/// If an upgrade is needed and there is no plan.
pub(crate) fn decide(
    group: Group<'_>,
    wanted: &str,
    control_plane: &ControlPlaneProgress,
    is_held_by_hooks: bool,
    workers: &mut WorkersProgress,
) -> Result<String, UpgradeError> {
    let Some((name, current)) = group.current else {
        // Machines could not join while the control plane changes.
        if !control_plane.is_stable() || is_held_by_hooks {
            workers.pending_create.insert(group.topology_name.to_string());
        }
        return Ok(wanted.to_string());
    };
    if current == wanted {
        return Ok(current.to_string());
    }
    if group.is_deferred {
        workers.deferred.insert(name.to_string());
    }
    let waits =
        group.is_deferred || is_held_by_hooks || workers.is_full() || !control_plane.lets_workers_go();
    if waits {
        workers.pending.insert(name.to_string());
        return Ok(current.to_string());
    }
    let no_plan = || UpgradeError::NoPlan(format!("{name:?}"));
    let next = workers.plan.first().cloned().ok_or_else(no_plan)?;
    if next == current {
        // It has done this step: others have not, and the control plane goes on after them.
        workers.pending.insert(name.to_string());
        return Ok(current.to_string());
    }
    workers.upgrading.insert(name.to_string());
    Ok(next)
}

/// For each group in the order of the topology: whether its upgrade waits because of an annotation on it, or on a group
/// before it that holds the sequence.
pub(crate) fn deferred<'a>(groups: impl Iterator<Item = Option<&'a TemplateMetadata>>) -> Vec<bool> {
    let mut is_held = false;
    groups
        .map(|metadata| {
            let has = |key: &str| metadata.is_some_and(|metadata| metadata.annotations.contains_key(key));
            is_held |= has(HOLD_UPGRADE_SEQUENCE);
            is_held || has(DEFER_UPGRADE)
        })
        .collect()
}
