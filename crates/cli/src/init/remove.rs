//! `capstan delete`: removes providers, by the labels that clusterctl and Capstan set on all their objects.

use anyhow::{Context, Result, bail};
use capstan_api::clusterctl::Provider;
use capstan_api::meta::labels;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt as _};

use super::args::DeleteArgs;
use super::{choice, installed, is_embedded};
use crate::client::ASKING;
use crate::progress::waiting;

pub(crate) async fn delete(args: &DeleteArgs) -> Result<()> {
    let config = args.plane.config().await?;
    let url = config.cluster_url.clone();
    let client = Client::try_from(config).context("cannot make a client")?;
    if waiting(ASKING, is_embedded(&client)).await? {
        bail!("{url} is an embedded plane: its providers are part of it, and stop with it");
    }
    let installed = waiting(ASKING, installed(&client)).await?;
    let providers = choice::to_remove(&args.providers, args.all, &installed)?;
    if providers.is_empty() {
        eprintln!("no provider is installed");
        return Ok(());
    }
    if args.include_crd {
        for provider in &providers {
            waiting(ASKING, refuse_if_used(&client, provider)).await?;
        }
    }
    let discovery = waiting(ASKING, Discovery::new(client.clone()).run());
    let discovery = discovery.await.context("cannot ask the plane what it knows")?;
    for provider in &providers {
        let name = provider.name_any();
        eprintln!("removing {name} {}", provider.spec.version.as_deref().unwrap_or_default());
        waiting(format!("removing {name}"), remove(&client, &discovery, provider, args))
            .await
            .with_context(|| format!("cannot remove {name}"))?;
    }
    Ok(())
}

fn of_provider(provider: &Provider) -> ListParams {
    ListParams::default().labels(&format!(
        "{}=,{}={}",
        labels::CLUSTERCTL,
        labels::PROVIDER,
        provider.name_any()
    ))
}

/// Kinds go with their objects, and an object that somebody must clean up after would never go.
async fn refuse_if_used(client: &Client, provider: &Provider) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crds = crds.list(&of_provider(provider)).await.context("cannot list CRDs")?.items;
    let mut used = Vec::new();
    for crd in crds {
        let Some(version) = crd.spec.versions.iter().find(|version| version.storage) else { continue };
        let gvk = GroupVersionKind::gvk(&crd.spec.group, &version.name, &crd.spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let objects = api.list(&ListParams::default().limit(1)).await;
        if objects.is_ok_and(|objects| !objects.items.is_empty()) {
            used.push(crd.spec.names.kind);
        }
    }
    match used.is_empty() {
        true => Ok(()),
        false => bail!(
            "there still are objects of {} of {}: delete or move them first, or leave out --include-crd",
            used.join(", "),
            provider.name_any()
        ),
    }
}

async fn remove(
    client: &Client,
    discovery: &Discovery,
    provider: &Provider,
    args: &DeleteArgs,
) -> Result<()> {
    let namespace = provider.namespace().unwrap_or_default();
    let params = of_provider(provider);
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST)
                || !capabilities.supports_operation(verbs::DELETE)
            {
                continue;
            }
            // The note that it is installed goes last, so that who is killed here can begin again.
            if resource.kind == "Provider" && resource.group == "clusterctl.cluster.x-k8s.io" {
                continue;
            }
            let api: Api<DynamicObject> = match capabilities.scope {
                Scope::Cluster => Api::all_with(client.clone(), &resource),
                Scope::Namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
            };
            let Ok(objects) = api.list(&params).await else { continue };
            for object in objects.items {
                let name = object.name_any();
                if is_removed(&resource.kind, &name, capabilities.scope == Scope::Cluster, &namespace, args) {
                    gone(api.delete(&name, &DeleteParams::background()).await)
                        .with_context(|| format!("cannot delete {} {name}", resource.kind))?;
                }
            }
        }
    }
    let api: Api<Provider> = Api::namespaced(client.clone(), &namespace);
    gone(api.delete(&provider.name_any(), &DeleteParams::background()).await)
        .context("cannot take it out of the inventory")
}

/// Whether an object of the provider goes. What has no namespace is known by its name, as clusterctl does it: it begins
/// with that of the provider's namespace.
fn is_removed(kind: &str, name: &str, is_global: bool, namespace: &str, args: &DeleteArgs) -> bool {
    match kind {
        "CustomResourceDefinition" => args.include_crd,
        "Namespace" => args.include_namespace && name == namespace,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => true,
        _ => !is_global || name.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('-')),
    }
}

fn gone<T>(deleted: kube::Result<T>) -> kube::Result<()> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Verb};
    use clap::Parser as _;

    #[test]
    fn what_lives_on_is_left() {
        let parsed =
            |words: &[&str]| match Args::try_parse_from([&["capstan", "delete", "--all"], words].concat()) {
                Ok(Args { verb: Verb::Delete(args) }) => args,
                other => panic!("parsed as {other:?}"),
            };
        let (plain, all) = (parsed(&[]), parsed(&["--include-crd", "--include-namespace"]));
        for (kind, name, is_global, by_default, with_all) in [
            ("Deployment", "manager", false, true, true),
            ("ClusterRole", "ns-manager", true, true, true),
            ("ClusterRole", "nsx", true, false, false),
            ("CustomResourceDefinition", "hosts.x", true, false, true),
            ("Namespace", "ns", true, false, true),
            ("Namespace", "other", true, false, false),
            ("ValidatingWebhookConfiguration", "w", true, true, true),
        ] {
            assert_eq!(is_removed(kind, name, is_global, "ns", &plain), by_default, "{kind} {name}");
            assert_eq!(is_removed(kind, name, is_global, "ns", &all), with_all, "{kind} {name}");
        }
    }
}
