//! Makes sure that the embedded plane knows Capstan's kinds, and tells clusterctl what is part of it.

use anyhow::{Context, Result, bail};
use capstan_api::clusterctl;
use capstan_api::crd::{self, CustomResourceDefinition};
use capstan_api::meta::labels;
use capstan_components::{Provider, providers};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a CRD may take until it is served.
const DEADLINE: Duration = Duration::from_secs(30);
/// Where the inventory stands.
const NAMESPACE: &str = "capstan-system";
/// What this program is a release of.
const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Applies every CRD and waits until all are served.
pub(crate) async fn crds(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crds = labelled();
    for crd in &crds {
        let name = crd::name(crd);
        api.patch(&name, &params(), &Patch::Apply(crd))
            .await
            .with_context(|| format!("cannot apply CRD {name}"))?;
    }
    let all_served = async {
        for crd in &crds {
            let name = crd::name(crd);
            kube::runtime::wait::await_condition(
                api.clone(),
                &name,
                kube::runtime::conditions::is_crd_established(),
            )
            .await
            .with_context(|| format!("cannot wait for CRD {name}"))?;
        }
        Ok(())
    };
    match tokio::time::timeout(DEADLINE, all_served).await {
        Ok(served) => served,
        Err(_) => bail!("the CRDs are not served after {} s", DEADLINE.as_secs()),
    }
}

/// Writes clusterctl's inventory, so that it can move clusters away from here, and to here.
pub(crate) async fn inventory(client: &Client) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .patch(NAMESPACE, &params(), &Patch::Apply(&namespace))
        .await
        .with_context(|| format!("cannot make namespace {NAMESPACE}"))?;
    let api: Api<clusterctl::Provider> = Api::namespaced(client.clone(), NAMESPACE);
    for provider in providers() {
        api.patch(&provider.label(), &params(), &Patch::Apply(&entry(provider)))
            .await
            .with_context(|| format!("cannot write {} into the inventory", provider.label()))?;
    }
    Ok(())
}

fn params() -> PatchParams {
    PatchParams::apply("capstan").force()
}

/// Every CRD, with the labels by which clusterctl finds what it moves.
fn labelled() -> Vec<CustomResourceDefinition> {
    let of_providers = [
        (Provider::Core, crd::core_provider()),
        (Provider::Bootstrap, crd::bootstrap_provider()),
        (Provider::ControlPlane, crd::control_plane_provider()),
        (Provider::Infrastructure, crd::infrastructure_provider()),
    ];
    let mut crds: Vec<CustomResourceDefinition> = of_providers
        .into_iter()
        .flat_map(|(provider, crds)| {
            crds.into_iter().map(move |mut crd| {
                let labels = crd.metadata.labels.get_or_insert_default();
                labels.insert(labels::CLUSTERCTL.to_owned(), String::new());
                labels.insert(labels::PROVIDER.to_owned(), provider.label());
                crd
            })
        })
        .collect();
    crds.extend(crd::inventory());
    crds.extend(crd::files());
    crds
}

fn entry(provider: Provider) -> Value {
    json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Provider",
        "metadata": {
            "name": provider.label(),
            "namespace": NAMESPACE,
            "labels": {
                labels::CLUSTERCTL: "",
                labels::PROVIDER: provider.label(),
                "clusterctl.cluster.x-k8s.io/core": "inventory",
            },
        },
        "providerName": provider.name(),
        "type": provider.provider_type().as_str(),
        "version": VERSION,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_installed_once_and_clusterctl_knows_whose_it_is() {
        let (mut labelled, mut all): (Vec<String>, Vec<String>) =
            (labelled().iter().map(crd::name).collect(), crd::all().iter().map(crd::name).collect());
        labelled.sort();
        all.sort();
        assert_eq!(labelled, all);
        let hosts = super::labelled().into_iter().find(|crd| crd.spec.names.kind == "Host").expect("Hosts");
        let labels = hosts.metadata.labels.expect("labels");
        assert_eq!(labels.get(labels::PROVIDER).map(String::as_str), Some("infrastructure-capstan"));
        assert!(
            labels.contains_key(labels::CLUSTERCTL) && labels.contains_key(labels::CLUSTERCTL_MOVE_HIERARCHY)
        );
    }
}
