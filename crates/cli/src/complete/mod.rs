//! `capstan complete`: prints names of objects for a shell that completes a word. The scripts of `capstan completion`
//! call it.
//!
//! The shell waits for the answer: it comes within two seconds or not at all, and errors are never printed.

mod wanted;

use anyhow::Result;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine, MachineDeployment};
use capstan_api::infrastructure::Host;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::Kubeconfig;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use std::fmt::Debug;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::client::{PlaceArgs, PlaneArgs};
use wanted::{CompletableKind, Request, Wanted};

/// How long a shell may be kept waiting.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most names that a shell is given: a user does not read more.
const MOST: u32 = 500;

#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// Words after the program name, up to the word that is being typed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

pub(crate) async fn run(args: &CompleteArgs) -> Result<()> {
    let text: String = names(&args.words).await.into_iter().map(|name| name + "\n").collect();
    std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

/// Completes for kubectl, which calls a program named `kubectl_complete-capstan`: prints names, and a directive for the
/// shell.
pub(crate) async fn run_for_kubectl(words: &[String]) -> Result<()> {
    let names = names(words).await;
    // 4: no names of files; 0: as the shell usually does.
    let directive = if names.is_empty() { ":0\n" } else { ":4\n" };
    let text: String = names.into_iter().map(|name| name + "\n").chain([directive.to_owned()]).collect();
    std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

async fn names(words: &[String]) -> Vec<String> {
    let Some(request) = wanted::wanted(words) else { return vec![] };
    let found = tokio::time::timeout(PATIENCE, Box::pin(find(&request))).await;
    wanted::offered(&request.typed, found.map(Result::unwrap_or_default).unwrap_or_default())
}

async fn find(request: &Request) -> Result<Vec<String>> {
    let plane = PlaneArgs {
        kubeconfig: request.kubeconfig.as_ref().map(PathBuf::from),
        kubeconfig_context: request.context.clone(),
    };
    if request.wanted == Wanted::Contexts {
        let file = match &plane.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)?,
            None => Kubeconfig::read()?,
        };
        return Ok(file.contexts.into_iter().map(|context| context.name).collect());
    }
    let place = PlaceArgs { namespace: request.namespace.clone(), plane }.connect().await?;
    let (client, namespace) = (&place.client, place.namespace.as_str());
    let mut names = Vec::new();
    match &request.wanted {
        Wanted::Contexts => {}
        Wanted::Namespaces => {
            let api: Api<Namespace> = Api::all(client.clone());
            let list = api.list_metadata(&ListParams::default().limit(MOST)).await?;
            names.extend(list.items.iter().map(kube::ResourceExt::name_any));
        }
        Wanted::Names(kinds) => {
            for (kind, prefix) in kinds {
                // The server may not serve this kind, but the others.
                let found = match kind {
                    CompletableKind::Cluster => list::<Cluster>(client, namespace).await,
                    CompletableKind::Machine => list::<Machine>(client, namespace).await,
                    CompletableKind::Host => list::<Host>(client, namespace).await,
                    CompletableKind::MachineDeployment => list::<MachineDeployment>(client, namespace).await,
                    CompletableKind::ControlPlane => list::<CapstanControlPlane>(client, namespace).await,
                };
                names.extend(found.unwrap_or_default().into_iter().map(|name| format!("{prefix}{name}")));
            }
        }
    }
    Ok(names)
}

async fn list<K>(client: &Client, namespace: &str) -> Result<Vec<String>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let list = api.list_metadata(&ListParams::default().limit(MOST)).await?;
    Ok(list.items.iter().map(kube::ResourceExt::name_any).collect())
}
