//! Reads the templates of a ClusterClass. Reads only.

use capstan_api::core::{ClusterClass, ClusterClassTemplateReference};
use capstan_controller::{Error, Result};
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use crate::Core;

/// A template of the class, in the version that the class names.
pub(crate) async fn template(
    core: &Core,
    class: &ClusterClass,
    reference: &ClusterClassTemplateReference,
) -> Result<DynamicObject> {
    let ClusterClassTemplateReference { kind, name, api_version } = reference;
    let namespace = class.namespace().unwrap_or_default();
    let found = core.externals.get_version((api_version, kind), &namespace, name).await?;
    found.ok_or_else(|| {
        // Nothing tells that an object is created that no ClusterClass owns yet: the reconcile is repeated.
        let doing = format!("cannot reconcile ClusterClass {namespace}/{}", class.name_any());
        Error::transient(doing, format!("there is no {kind} {name}"))
    })
}

/// The version of the kind that implements the newest contract, with its group.
pub(super) async fn latest(core: &Core, reference: &ClusterClassTemplateReference) -> Result<String> {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    Ok(core.externals.resource(group, &reference.kind).await?.api_version)
}
