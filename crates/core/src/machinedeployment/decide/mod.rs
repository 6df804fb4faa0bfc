//! Which MachineSets a MachineDeployment has, and how many Machines each should have next. Pure.

pub(super) mod defaults;
pub(super) mod desired;
pub(super) mod draft_name;
pub mod limits;
pub mod on_delete;
pub mod plan;
pub mod proportional;
pub(super) mod question;
pub(super) mod received;
pub(super) mod replace;
pub(super) mod revision;
pub(super) mod rollout;
pub mod select;

use capstan_api::core::{MachineDeployment, MachineSet};
use capstan_controller::{Next, owners};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};
use std::time::Duration;

/// Whether a MachineSet is the MachineDeployment's, or may become it.
pub(super) fn belongs(set: &MachineSet, deployment: &MachineDeployment, selector: &Selector) -> bool {
    match owners::controller_of(&set.metadata) {
        Some(_) => owners::is_controlled_by(&set.metadata, deployment),
        None => selector.matches(set.labels()),
    }
}

/// When a rollout by time has to begin.
pub(super) fn until_rollout(deployment: &MachineDeployment, now: Timestamp) -> Next {
    let after = deployment.spec.rollout.as_ref().and_then(|rollout| rollout.after.as_ref());
    let left = after.map(|after| after.0.duration_since(now));
    match left.and_then(|left| Duration::try_from(left).ok()).filter(|left| !left.is_zero()) {
        Some(left) => Next::After(left),
        None => Next::Changed,
    }
}
