//! Makes the Cluster own the templates of a MachineSet or a MachineDeployment.

use capstan_api::core::{Cluster, MachineTemplateSpec};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::error::Doing as _;
use capstan_controller::{Result, owners};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::super::observe::Templates;
use crate::Core;

/// Makes the Cluster the owner of both templates, so that they are deleted, and moved, with it.
pub(crate) async fn own(
    core: &Core,
    cluster: &Cluster,
    template: &MachineTemplateSpec,
    mut found: Templates,
) -> Result<Templates> {
    if let (Some(reference), Some(object)) = (&template.spec.bootstrap.config_ref, &mut found.bootstrap) {
        own_one(core, cluster, reference, object).await?;
    }
    if let Some(object) = &mut found.infrastructure {
        own_one(core, cluster, &template.spec.infrastructure_ref, object).await?;
    }
    Ok(found)
}

async fn own_one(
    core: &Core,
    cluster: &Cluster,
    reference: &ContractVersionedObjectReference,
    object: &mut DynamicObject,
) -> Result<()> {
    let namespace = cluster.namespace().unwrap_or_default();
    let is_template = reference.kind.ends_with("Template");
    if let Some(owner) = owners::plain(cluster).filter(|_| is_template)
        && owners::ensure(&mut object.metadata, &owner)
    {
        let api = core.externals.api(reference, &namespace).await?;
        let patch = json!({"metadata": {
            "resourceVersion": object.resource_version(),
            "ownerReferences": object.metadata.owner_references,
        }});
        api.patch(&reference.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .doing(|| format!("cannot become owner of {} {namespace}/{}", reference.kind, reference.name))?;
    }
    Ok(())
}
