//! The version of the control plane.

use super::{Answer, Hook, Hooks, Progress, UpgradeError};
use crate::contract;
use crate::metadata::BEFORE_UPGRADE_PREFIX;
use crate::object;
use serde_json::Value;
use std::collections::BTreeMap;

/// The version that the control plane gets now. Records in `progress` what it waits for.
///
/// # Errors
/// If a version cannot be read, or an upgrade is needed and there is no plan.
pub(crate) fn decide(
    control_plane: Option<&Value>,
    wanted: &str,
    annotations: &BTreeMap<String, String>,
    hooks: &Hooks,
    progress: &mut Progress,
) -> Result<String, UpgradeError> {
    let Some(control_plane) = control_plane else { return Ok(wanted.to_string()) };
    let current = object::text(control_plane, contract::VERSION).to_string();
    progress.control_plane.is_pending = current != wanted;
    if contract::is_provisioning(control_plane) {
        progress.control_plane.is_provisioning = true;
        return Ok(current);
    }
    if contract::is_upgrading(control_plane)? {
        progress.control_plane.is_upgrading = true;
        return Ok(current);
    }
    // The end of the step before, also if no other step follows.
    if !passes_pending(Hook::AfterControlPlaneUpgrade, hooks, progress)
        || !passes_pending(Hook::BeforeWorkersUpgrade, hooks, progress)
    {
        return Ok(current);
    }
    let Progress { machine_deployments, machine_pools, .. } = progress;
    if machine_deployments.next_is(&current) || machine_pools.next_is(&current) {
        progress.control_plane.is_waiting_for_workers = true;
        return Ok(current);
    }
    if !machine_deployments.upgrading.is_empty() || !machine_pools.upgrading.is_empty() {
        return Ok(current);
    }
    if !passes_pending(Hook::AfterWorkersUpgrade, hooks, progress) || !progress.control_plane.is_pending {
        return Ok(current);
    }
    if hooks.are_enabled {
        if !starts(annotations, hooks, progress) {
            return Ok(current);
        }
        // From here on the upgrade is in progress, whatever its next step waits for.
        progress.to_mark.insert(Hook::AfterClusterUpgrade);
    }
    let no_plan = || UpgradeError::NoPlan("the control plane".to_string());
    let next = progress.control_plane.plan.first().cloned().ok_or_else(no_plan)?;
    if hooks.are_enabled {
        if !passes(Hook::BeforeControlPlaneUpgrade, hooks, progress) {
            return Ok(current);
        }
        progress.to_mark.insert(Hook::AfterControlPlaneUpgrade);
        if progress.machine_deployments.next_is(&next) || progress.machine_pools.next_is(&next) {
            progress.to_mark.extend([Hook::BeforeWorkersUpgrade, Hook::AfterWorkersUpgrade]);
        }
    }
    progress.control_plane.is_starting = true;
    progress.control_plane.is_pending = false;
    Ok(next)
}

/// Whether an upgrade may start; it may if it has started already.
fn starts(annotations: &BTreeMap<String, String>, hooks: &Hooks, progress: &mut Progress) -> bool {
    if hooks.is_pending(Hook::AfterClusterUpgrade) {
        return true;
    }
    if annotations.keys().any(|key| key.starts_with(BEFORE_UPGRADE_PREFIX)) {
        return false;
    }
    passes(Hook::BeforeClusterUpgrade, hooks, progress)
}

/// Whether a hook that is called once for each step lets the upgrade go on.
fn passes_pending(hook: Hook, hooks: &Hooks, progress: &mut Progress) -> bool {
    if !hooks.are_enabled || !hooks.is_pending(hook) {
        return true;
    }
    let passes = passes(hook, hooks, progress);
    if passes {
        progress.done.insert(hook);
    }
    passes
}

/// Whether a hook lets the upgrade go on. Without an answer it must be called first.
fn passes(hook: Hook, hooks: &Hooks, progress: &mut Progress) -> bool {
    match hooks.answers.get(&hook) {
        Some(Answer::Continue) => true,
        Some(Answer::Block) => false,
        None => {
            progress.needs = Some(hook);
            false
        }
    }
}
