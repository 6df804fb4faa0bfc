//! The infrastructure cluster, and what the topology sets in the Cluster.

use super::cloned::{Cloned, shim_owner};
use super::{ComputeError, Input, Names};
use crate::contract;
use crate::metadata::{self, UPGRADE_STEP};
use crate::names::{self, Suffixes};
use crate::object;
use crate::state::DesiredCluster;
use crate::upgrade::{Hook, Progress};
use serde_json::Value;

/// The name of objects of a cluster, unless the class says otherwise.
pub(super) const NAME: &str = "{{ .cluster.name }}-{{ .random }}";

pub(super) fn infrastructure(
    input: &Input<'_>,
    cluster: &Names<'_>,
    suffixes: &mut dyn Suffixes,
) -> Result<Value, ComputeError> {
    let naming = input.blueprint.class.spec.infrastructure.naming.as_ref();
    let template = naming.and_then(|naming| naming.template.as_deref()).unwrap_or(NAME);
    let name = match &input.cluster.spec.infrastructure_ref {
        Some(reference) => reference.name.clone(),
        None => names::lasting_from_template(template, cluster.name, "infrastructure", suffixes)
            .map_err(|why| ComputeError::Name { what: "infrastructure cluster".to_string(), why })?,
    };
    // The Cluster becomes its owner when it refers to it: providers start with the owner.
    let owner = shim_owner(input.current.infrastructure_cluster.as_ref(), cluster);
    Ok(Cloned::plain(name, owner, cluster).object(input.blueprint.infrastructure_cluster))
}

pub(super) fn cluster(
    input: &Input<'_>,
    cluster: &Names<'_>,
    infrastructure: &Value,
    control_plane: &Value,
    progress: &Progress,
) -> DesiredCluster {
    let mut labels = input.cluster.metadata.labels.clone().unwrap_or_default();
    metadata::own(&mut labels, cluster.name);
    let mut annotations = input.cluster.metadata.annotations.clone().unwrap_or_default();
    let hooks = input.hooks;
    let has_plan =
        [&progress.control_plane.plan, &progress.machine_deployments.plan, &progress.machine_pools.plan]
            .iter()
            .any(|plan| !plan.is_empty());
    let is_upgrading = if hooks.are_enabled {
        hooks.pending.contains(&Hook::AfterClusterUpgrade)
            || progress.to_mark.contains(&Hook::AfterClusterUpgrade)
    } else {
        has_plan
    };
    // Control plane and MachineSets create machines of intermediate versions only with it.
    if is_upgrading {
        let version = object::text(control_plane, contract::VERSION);
        annotations.insert(UPGRADE_STEP.to_string(), version.to_string());
    } else {
        annotations.remove(UPGRADE_STEP);
    }
    DesiredCluster {
        labels,
        annotations,
        infrastructure_ref: object::reference(infrastructure),
        control_plane_ref: object::reference(control_plane),
    }
}
