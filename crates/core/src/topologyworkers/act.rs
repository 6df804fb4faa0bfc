//! Deletes templates, and the MachineHealthCheck of a MachineDeployment: only those that a topology has made for the same
//! cluster.

use capstan_api::core::MachineHealthCheck;
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::error::Doing as _;
use capstan_controller::{Grounds, Result, destroy};
use kube::ResourceExt as _;

use super::decide::is_of_topology;
use crate::Core;

/// Deletes these templates.
pub(super) async fn delete_templates(
    core: &Core,
    namespace: &str,
    cluster: &str,
    templates: &[ContractVersionedObjectReference],
) -> Result<()> {
    for reference in templates {
        let api = core.externals.api(reference, namespace).await?;
        let found = api.get_metadata_opt(&reference.name).await;
        let found =
            found.doing(|| format!("cannot read {} {namespace}/{}", reference.kind, reference.name))?;
        let is_ours = |labels: &std::collections::BTreeMap<String, String>| {
            is_of_topology(labels) && labels.get(labels::CLUSTER_NAME).is_some_and(|name| name == cluster)
        };
        if let Some(found) = found.filter(|found| is_ours(found.labels())) {
            let grounds = Grounds::asked("no MachineDeployment or MachineSet of its topology uses it");
            destroy::delete(&api, &found.metadata, &grounds).await?;
        }
    }
    Ok(())
}

/// Deletes the MachineHealthCheck of a MachineDeployment, which has its name.
pub(super) async fn delete_health_check(core: &Core, namespace: &str, name: &str) -> Result<()> {
    let api = core.api::<MachineHealthCheck>(namespace);
    let found = api.get_opt(name).await;
    let found = found.doing(|| format!("cannot read MachineHealthCheck {namespace}/{name}"))?;
    if let Some(found) = found.filter(|found| is_of_topology(found.labels())) {
        let grounds = Grounds::asked("its MachineDeployment is deleted");
        destroy::delete(&api, &found.metadata, &grounds).await?;
    }
    Ok(())
}
