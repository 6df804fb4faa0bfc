//! Installs CRDs on a plane: those of the caller, and upstream's from the cache of tools.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_tools::{CrdSet, UpstreamCrds};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};

use crate::eventually;

/// Long, because a plane with thirty large CRDs keeps two cores busy.
const DEADLINE: Duration = Duration::from_secs(120);
/// Requests at a time.
const PARALLEL: usize = 4;

/// Applies `crds` and waits until the API server serves them.
pub async fn install_crds<T: Serialize>(client: &kube::Client, crds: &[T]) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crds = crds.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>().context("not a CRD")?;
    futures::stream::iter(&crds).map(|crd| install(&api, crd)).buffer_unordered(PARALLEL).try_collect().await
}

async fn install(api: &Api<CustomResourceDefinition>, crd: &Value) -> Result<()> {
    let name = crd.pointer("/metadata/name").and_then(Value::as_str).context("a CRD without a name")?;
    let parameters = PatchParams::apply("capstan-testkit").force();
    api.patch(name, &parameters, &Patch::Apply(crd))
        .await
        .with_context(|| format!("the CRD {name} is refused"))?;
    eventually(DEADLINE, &format!("the CRD {name} to be served"), async || {
        let crd = api.get(name).await?;
        let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
        let established = conditions.iter().any(|c| c.type_ == "Established" && c.status == "True");
        ensure!(established, "conditions {}", json!(conditions));
        Ok(())
    })
    .await
}

/// Applies upstream's CRDs of `sets`, as its manifests would, but without webhooks.
pub async fn install_upstream_crds(client: &kube::Client, sets: &[CrdSet]) -> Result<()> {
    let mut crds = Vec::new();
    for &set in sets {
        crds.extend(upstream_crds(set)?);
    }
    install_crds(client, &crds).await
}

/// Upstream's CRDs of one set, with the labels that tell core which contract version a provider's kinds implement. The
/// files lack the labels, because upstream adds them when it builds a release.
pub fn upstream_crds(set: CrdSet) -> Result<Vec<Value>> {
    UpstreamCrds::locate()?
        .files(set)?
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut crd: Value =
                serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))?;
            if is_provider(set) {
                for contract in ["v1beta1", "v1beta2"] {
                    crd["metadata"]["labels"][format!("cluster.x-k8s.io/{contract}")] = json!(contract);
                }
            }
            Ok(crd)
        })
        .collect()
}

fn is_provider(set: CrdSet) -> bool {
    match set {
        CrdSet::Core | CrdSet::Clusterctl => false,
        CrdSet::KubeadmBootstrap | CrdSet::KubeadmControlPlane | CrdSet::Dev => true,
    }
}
