//! The one write of the HostMachineTemplate controller.

use capstan_api::infrastructure::HostMachineTemplate;
use capstan_controller::Result;
use capstan_controller::error::Doing as _;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use crate::context::Infrastructure;

/// Writes status.
pub(super) async fn write(
    infrastructure: &Infrastructure,
    template: &HostMachineTemplate,
    patch: &Value,
) -> Result<()> {
    let (namespace, name) = (template.namespace().unwrap_or_default(), template.name_any());
    let api = infrastructure.api::<HostMachineTemplate>(&namespace);
    let written = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    let doing = || format!("cannot write status.claimableHosts of HostMachineTemplate {namespace}/{name}");
    written.map(|_| ()).doing(doing)
}
