//! Installs Capstan's CRDs on the embedded plane, and records its providers in clusterctl's inventory.

mod unchanged;

use anyhow::{Context, Result, bail};
use capstan_api::clusterctl;
use capstan_api::crd::CustomResourceDefinition;
use capstan_api::meta::labels;
use capstan_components::{Provider, providers};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::{conditions, wait};
use kube::{Client, Resource};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a CRD may take until it is served.
const DEADLINE: Duration = Duration::from_secs(30);
/// Where the inventory stands.
const NAMESPACE: &str = "capstan-system";
/// What this program is a release of.
const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The CRDs of `config/crd` as JSON, one on each line. They are committed: to generate them from the types would be most of
/// a start, and a build script that converts them would compile the YAML library a second time. A test in `crates/api`
/// compares them with the types.
const CRDS: &str = include_str!("../../../../config/crd.jsonl");

/// Applies every CRD that is missing or outdated, and waits until all are served.
pub(crate) async fn crds(client: &Client) -> Result<()> {
    let api = Api::all_with(client.clone(), &kind::<CustomResourceDefinition>());
    let mut awaited = Vec::new();
    for (name, crd) in labelled() {
        let there = apply(&api, &name, crd).await.with_context(|| format!("cannot apply CRD {name}"))?;
        if !there.is_some_and(|there| is_established(&there)) {
            awaited.push(name);
        }
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let all_served = async {
        for name in &awaited {
            wait::await_condition(api.clone(), name, conditions::is_crd_established())
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

/// Writes clusterctl's inventory, so that clusterctl can move clusters to and from this plane.
pub(crate) async fn inventory(client: &Client) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(&Api::all_with(client.clone(), &kind::<Namespace>()), NAMESPACE, namespace)
        .await
        .with_context(|| format!("cannot make namespace {NAMESPACE}"))?;
    let api = Api::namespaced_with(client.clone(), NAMESPACE, &kind::<clusterctl::Provider>());
    for provider in providers() {
        apply(&api, &provider.label(), entry(provider))
            .await
            .with_context(|| format!("cannot write {} into the inventory", provider.label()))?;
    }
    Ok(())
}

fn kind<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// Applies an object unless it is there as it should be: then it is told what there is.
async fn apply(api: &Api<DynamicObject>, name: &str, object: Value) -> Result<Option<Value>> {
    let wanted = unchanged::marked(object);
    if let Some(there) = api.get_opt(name).await? {
        let there = serde_json::to_value(&there).context("cannot read what there is")?;
        if unchanged::is_there(&wanted, &there) {
            return Ok(Some(there));
        }
    }
    api.patch(name, &params(), &Patch::Apply(&wanted)).await?;
    Ok(None)
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    let is = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    conditions.is_some_and(|conditions| conditions.iter().any(is))
}

fn params() -> PatchParams {
    PatchParams::apply("capstan").force()
}

/// Every CRD by its name, with the labels by which clusterctl finds what it moves.
fn labelled() -> Vec<(String, Value)> {
    let read = |line| {
        serde_json::from_str(line)
            .unwrap_or_else(|error| unreachable!("committed, and read by a test: {error}"))
    };
    let mut crds: Vec<Value> = CRDS.lines().map(read).collect();
    for crd in &mut crds {
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str);
        if let Some(provider) = text("/spec/group").and_then(provider) {
            crd["metadata"]["labels"][labels::CLUSTERCTL] = "".into();
            crd["metadata"]["labels"][labels::PROVIDER] = provider.label().into();
        }
    }
    crds.into_iter()
        .map(|crd| (crd["metadata"]["name"].as_str().unwrap_or_default().to_owned(), crd))
        .collect()
}

/// Whose kinds are in a group; nobody's are those of the inventory.
fn provider(group: &str) -> Option<Provider> {
    match group.split_once('.')?.0 {
        "clusterctl" => None,
        "bootstrap" => Some(Provider::Bootstrap),
        // Plans are the control plane's work, so the reports are too.
        "controlplane" | "agent" => Some(Provider::ControlPlane),
        "infrastructure" => Some(Provider::Infrastructure),
        _ => Some(Provider::Core),
    }
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
    use capstan_api::crd;
    use capstan_apiserver::{ApiServer, Options, Storage, User};

    #[tokio::test]
    async fn what_is_there_is_not_applied_again_and_what_somebody_changed_is() {
        let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
        let client = Client::new(server.service(User::admin()), "default");
        let api = Api::all_with(client.clone(), &kind::<CustomResourceDefinition>());
        let all = labelled();
        crds(&client).await.unwrap();
        for (name, crd) in &all {
            let there = apply(&api, name, crd.clone()).await.unwrap();
            assert!(there.is_some_and(|there| is_established(&there)), "{name}");
        }
        inventory(&client).await.unwrap();
        let revision = server.revision();
        let (name, crd) = &all[0];
        let patch = json!({"spec": {"names": {"categories": ["mine"]}}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        assert_eq!(apply(&api, name, crd.clone()).await.unwrap(), None);
        assert_ne!(apply(&api, name, crd.clone()).await.unwrap(), None);
        inventory(&client).await.unwrap();
        assert_eq!(server.revision(), revision + 2);
        server.shutdown().await;
    }

    #[test]
    fn every_kind_is_installed_once_and_clusterctl_knows_whose_it_is() {
        let labelled = labelled();
        let whose = [
            (Some(Provider::Core), crd::core_provider()),
            (Some(Provider::Bootstrap), crd::bootstrap_provider()),
            (Some(Provider::ControlPlane), crd::control_plane_provider()),
            (Some(Provider::Infrastructure), crd::infrastructure_provider()),
            (None, crd::inventory()),
            (None, crd::files()),
        ];
        let mut found = 0;
        for (provider, crds) in whose {
            for crd in &crds {
                let (_, installed) = labelled.iter().find(|(name, _)| *name == crd::name(crd)).unwrap();
                let labels = &installed["metadata"]["labels"];
                assert_eq!(
                    labels[labels::PROVIDER].as_str().map(str::to_owned),
                    provider.map(Provider::label)
                );
                assert_eq!(labels[labels::CLUSTERCTL].as_str(), provider.map(|_| ""));
                assert_eq!(installed["spec"]["names"]["kind"], crd.spec.names.kind);
                found += 1;
            }
        }
        assert_eq!(found, labelled.len());
        let (_, hosts) = labelled.iter().find(|(name, _)| name.starts_with("hosts.")).unwrap();
        assert!(hosts["metadata"]["labels"].get(labels::CLUSTERCTL_MOVE_HIERARCHY).is_some());
    }
}
