//! Writes the CA bundle of an extension into its ExtensionConfig.

use capstan_api::runtime::ExtensionConfig;
use capstan_controller::Result;
use capstan_controller::error::Doing as _;
use k8s_openapi::ByteString;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

/// The ExtensionConfig with this CA bundle; unchanged if there is none, or if it has it already.
pub(super) async fn write_ca_bundle(
    api: &Api<ExtensionConfig>,
    config: ExtensionConfig,
    bundle: Option<ByteString>,
) -> Result<ExtensionConfig> {
    if bundle.is_none() || config.spec.client_config.ca_bundle == bundle {
        return Ok(config);
    }
    let name = config.name_any();
    let patch = json!({"spec": {"clientConfig": {"caBundle": bundle}}});
    let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.doing(|| format!("cannot write the certificates of ExtensionConfig {name}"))
}
