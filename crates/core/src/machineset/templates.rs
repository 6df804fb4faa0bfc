//! The templates that a MachineSet or a MachineDeployment points to.

use capstan_api::core::{Cluster, MachineTemplateSpec};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::error::Doing as _;
use capstan_controller::{Result, owners};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::Core;

/// What was found behind the references of a template for Machines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    pub(crate) bootstrap: Option<DynamicObject>,
    pub(crate) infrastructure: Option<DynamicObject>,
    /// Kinds that a reference names and that are not there.
    pub(crate) missing: Vec<String>,
}

/// Reads both templates, and makes the Cluster their owner so that they go, and move, with it.
pub(crate) async fn claim(
    core: &Core,
    cluster: &Cluster,
    template: &MachineTemplateSpec,
) -> Result<Templates> {
    let mut found = Templates::default();
    if let Some(reference) = &template.spec.bootstrap.config_ref {
        found.bootstrap = claim_one(core, cluster, reference).await?;
        found.missing.extend(found.bootstrap.is_none().then(|| reference.kind.clone()));
    }
    let reference = &template.spec.infrastructure_ref;
    found.infrastructure = claim_one(core, cluster, reference).await?;
    found.missing.extend(found.infrastructure.is_none().then(|| reference.kind.clone()));
    Ok(found)
}

async fn claim_one(
    core: &Core,
    cluster: &Cluster,
    reference: &ContractVersionedObjectReference,
) -> Result<Option<DynamicObject>> {
    let namespace = cluster.namespace().unwrap_or_default();
    let Some(mut object) = core.externals.get(reference, &namespace).await? else { return Ok(None) };
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
    Ok(Some(object))
}
