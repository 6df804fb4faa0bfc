//! Reads the CA bundle of an extension. Reads only.

use capstan_api::runtime::ExtensionConfig;
use capstan_controller::error::Doing as _;
use capstan_controller::{Error, Result, secrets};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::Api;

use super::decide::SecretName;
use crate::Core;

/// Key of the CA bundle in the Secret.
const CA: &str = "ca.crt";

/// The CA bundle in the Secret that the ExtensionConfig names, if it names one.
pub(super) async fn ca_bundle(
    core: &Core,
    config: &ExtensionConfig,
    named: Option<&SecretName>,
) -> Result<Option<ByteString>> {
    let Some((namespace, secret)) = named else { return Ok(None) };
    let secrets: Api<Secret> = core.api(namespace);
    let name = config.name_any();
    let doing = || format!("cannot read Secret {namespace}/{secret} for ExtensionConfig {name}");
    let found = secrets.get(secret).await.doing(doing)?;
    let bundle = secrets::get(&found, CA)
        .ok_or_else(|| Error::transient(doing(), format!("it does not have the key {CA}")))?;
    Ok(Some(ByteString(bundle.to_vec())))
}
