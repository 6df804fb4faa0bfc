//! Writes the kubeconfig Secret.

use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::secrets::Purpose;
use capstan_distro::Endpoint;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};

use super::decide::{build, is_due};
use crate::observe::Observed;

/// Writes the Secret, if it is due.
pub(crate) async fn write(seen: &Observed<'_>, endpoint: &Endpoint) -> Result<()> {
    let (scope, cluster) = (seen.scope, seen.scope.cluster_name());
    let found = seen.secrets.by_purpose.get(&Purpose::Kubeconfig);
    let (true, Some(ca)) =
        (is_due(found, scope.owner, endpoint, scope.now), seen.secrets.by_purpose.get(&Purpose::Ca))
    else {
        return Ok(());
    };
    let doing = || format!("cannot write Secret {}", Purpose::Kubeconfig.secret_name(&cluster));
    let mut secret = build(ca, scope.owner, &cluster, endpoint, scope.now)
        .map_err(|error| Error::transient(doing(), error))?;
    let api: Api<Secret> = scope.api();
    match found {
        Some(found) => {
            secret.metadata.resource_version = found.resource_version();
            api.replace(&secret.name_any(), &PostParams::default(), &secret).await.doing(doing)?;
        }
        None => _ = api.create(&PostParams::default(), &secret).await.doing(doing)?,
    }
    Ok(())
}
