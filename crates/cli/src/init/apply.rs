//! Applies the objects of a provider to a plane, and waits until they work.

use anyhow::{Context, Result, bail};
use capstan_api::clusterctl::Provider;
use capstan_api::crd;
use capstan_api::meta::labels;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use std::time::Duration;

use super::release::Release;
use crate::progress::Progress;

/// Who owns the fields that are written here.
const MANAGER: &str = "capstan-init";
/// How long a CRD may take until it is served.
const SERVED: Duration = Duration::from_secs(60);
/// Between two looks at Deployments.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct Applier {
    client: Client,
}

impl Applier {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Installs the CRDs of clusterctl's inventory if they are missing. Existing ones stay unchanged.
    pub(super) async fn inventory(&self) -> Result<()> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for mut crd in crd::inventory() {
            let name = crd::name(&crd);
            if crds.get_opt(&name).await.with_context(|| format!("cannot read CRD {name}"))?.is_some() {
                continue;
            }
            crd.metadata.labels.get_or_insert_default().insert(labels::CLUSTERCTL.to_owned(), String::new());
            self.crd(&serde_json::to_value(&crd)?).await?;
        }
        Ok(())
    }

    /// Applies all objects of a provider; its inventory entry comes last.
    pub(super) async fn release(&self, release: &Release) -> Result<()> {
        for object in &release.objects {
            match object["kind"].as_str() {
                Some("CustomResourceDefinition") => self.crd(object).await?,
                _ => self.apply(object).await?,
            }
        }
        let provider = json!({
            "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
            "kind": "Provider",
            "metadata": {
                "name": release.choice.label(),
                "namespace": release.namespace,
                "labels": {
                    labels::CLUSTERCTL: "",
                    labels::PROVIDER: release.choice.label(),
                    "clusterctl.cluster.x-k8s.io/core": "inventory",
                },
            },
            "providerName": release.choice.name,
            "type": release.choice.kind.as_str(),
            "version": release.version,
        });
        let api: Api<Provider> = Api::namespaced(self.client.clone(), &release.namespace);
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&release.choice.label(), &params, &Patch::Apply(&provider))
            .await
            .context("cannot write it into the inventory")?;
        Ok(())
    }

    async fn crd(&self, crd: &Value) -> Result<()> {
        self.apply(crd).await?;
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        match tokio::time::timeout(SERVED, await_condition(crds, name, is_crd_established())).await {
            Ok(served) => served.map(|_| ()).with_context(|| format!("cannot wait for CRD {name}")),
            Err(_) => bail!("CRD {name} is not served after {} s", SERVED.as_secs()),
        }
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
        let (resource, capabilities) = pinned_kind(
            &self.client,
            &GroupVersionKind::gvk(group, version, kind),
        )
        .await
        .with_context(|| {
            format!("the plane does not know {kind} ({}): install what brings it first", text("/apiVersion"))
        })?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(self.client.clone(), &resource),
            Scope::Namespaced => {
                Api::namespaced_with(self.client.clone(), text("/metadata/namespace"), &resource)
            }
        };
        api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object))
            .await
            .with_context(|| format!("cannot apply {kind} {name}"))?;
        Ok(())
    }

    /// Waits until every Deployment of a provider is available.
    pub(super) async fn wait(&self, release: &Release, timeout: Duration) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &release.namespace);
        let label = release.choice.label();
        let params = ListParams::default().labels(&format!("{}={label}", labels::PROVIDER));
        let mut waiting = Vec::new();
        let progress = Progress::new();
        let all_run = async {
            loop {
                let deployments = api.list(&params).await.context("cannot list Deployments")?.items;
                waiting = deployments.iter().filter_map(unavailable).collect();
                if waiting.is_empty() {
                    return Ok::<_, anyhow::Error>(());
                }
                progress.show(&waiting.join("; "));
                tokio::time::sleep(LOOK).await;
            }
        };
        match tokio::time::timeout(timeout, all_run).await {
            Ok(ran) => ran,
            Err(_) => bail!(
                "{label} does not run after {} s: {} (see `kubectl get pods -n {}`)",
                timeout.as_secs(),
                waiting.join("; "),
                release.namespace
            ),
        }
    }
}

/// What a Deployment that is not available says of it.
fn unavailable(deployment: &Deployment) -> Option<String> {
    let conditions =
        deployment.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let available = conditions.iter().find(|condition| condition.type_ == "Available");
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    match available {
        Some(condition) if condition.status == "True" => None,
        Some(condition) => {
            Some(format!("Deployment {name}: {}", condition.message.as_deref().unwrap_or("not available")))
        }
        None => Some(format!(
            "Deployment {name}: it has no condition Available; check that kube-controller-manager runs"
        )),
    }
}
