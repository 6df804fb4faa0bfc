//! Makes a ClusterClass an owner of its templates, so that they are deleted, and moved, with it.

use capstan_api::core::{ClusterClass, ClusterClassTemplateReference};
use capstan_controller::error::Doing as _;
use capstan_controller::{Result, owners};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::Core;

/// Adds the class to the owners of a template.
pub(super) async fn own(
    core: &Core,
    class: &ClusterClass,
    reference: &ClusterClassTemplateReference,
    template: &DynamicObject,
) -> Result<()> {
    let mut meta = template.metadata.clone();
    let Some(owner) = owners::plain(class).filter(|owner| owners::ensure(&mut meta, owner)) else {
        return Ok(());
    };
    let namespace = class.namespace().unwrap_or_default();
    let ClusterClassTemplateReference { kind, name, api_version } = reference;
    let api = core.externals.api_version(api_version, kind, &namespace).await?;
    // The list is replaced whole, so it must not have changed meanwhile.
    let patch = json!({"metadata": {
        "resourceVersion": template.resource_version(),
        "ownerReferences": meta.owner_references,
    }});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .doing(|| format!("cannot make ClusterClass {} an owner of {kind} {namespace}/{name}", owner.name))?;
    Ok(())
}
