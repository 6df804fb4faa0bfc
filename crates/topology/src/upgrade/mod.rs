//! Versions of a managed cluster: the plan of an upgrade, and which version the control plane and each group of workers
//! gets now.
//!
//! The control plane goes first, one step of the plan after the other. Workers follow, a limited number of groups at a
//! time; they skip steps that version skew allows to skip. Hooks of runtime extensions are asked by the caller: a decision
//! that depends on one says which, and keeps the current version.

mod control_plane;
mod hooks;
mod plan;
mod tracker;
mod version;
mod workers;

pub(crate) use control_plane::decide as decide_control_plane;
pub use hooks::{Answer, Hook, Hooks};
pub use plan::{Plans, Source, complete, from_class_versions, one_minor};
pub use tracker::{ControlPlaneProgress, Progress, WorkersProgress};
pub use version::{Order, order, parse};
pub(crate) use workers::{Group, decide as decide_workers, deferred};

use serde_json::Value;

use crate::object;

/// Why no version can be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeError {
    /// A text is not a version.
    #[error("{0:?} is not a semantic version")]
    NotAVersion(String),
    /// Without versions in the class, an upgrade can only go to the next minor version.
    #[error(
        "cannot compute an upgrade plan from {from} to {to}: without spec.kubernetesVersions in the ClusterClass, an \
         upgrade goes to the next minor version at most"
    )]
    TooFar {
        /// Version of the control plane.
        from: String,
        /// Version of the topology.
        to: String,
    },
    /// The plan of the control plane is not valid.
    #[error("invalid upgrade plan of the control plane: {0}")]
    ControlPlanePlan(String),
    /// The plan of the workers is not valid.
    #[error("invalid upgrade plan of the workers: {0}")]
    WorkersPlan(String),
    /// An upgrade is needed and there is no plan.
    #[error("{0} must be upgraded, but there is no upgrade plan")]
    NoPlan(String),
    /// The plan comes from a runtime extension, and the caller has none.
    #[error("the upgrade plan comes from runtime extension {0:?}")]
    External(String),
}

/// Whether a MachineDeployment is upgrading: a Machine has another version, or its kubelet reports another one.
///
/// # Errors
/// With the name of a Machine without a version: it is not known whether it is upgraded.
pub fn machine_deployment_is_upgrading<'a>(
    machine_deployment: &Value,
    machines: impl IntoIterator<Item = &'a Value>,
) -> Result<bool, String> {
    let wanted = object::text(machine_deployment, &["spec", "template", "spec", "version"]);
    if wanted.is_empty() {
        return Ok(false);
    }
    for machine in machines {
        let version = object::text(machine, &["spec", "version"]);
        if version.is_empty() {
            return Err(object::name(machine).to_string());
        }
        let kubelet = object::text(machine, &["status", "nodeInfo", "kubeletVersion"]);
        if version != wanted || (!kubelet.is_empty() && kubelet != wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a MachinePool is upgrading: the kubelet of a Node reports another version.
pub fn machine_pool_is_upgrading<'a>(
    machine_pool: &Value,
    kubelets: impl IntoIterator<Item = &'a str>,
) -> bool {
    let wanted = object::text(machine_pool, &["spec", "template", "spec", "version"]);
    !wanted.is_empty() && kubelets.into_iter().any(|version| version != wanted)
}

#[cfg(test)]
mod tests;
