//! The objects by which one sees how far a machine is. Reads only, and no Secrets: the hooks have no right to them.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::{Machine, MachineSet};
use capstan_api::runtime::hooks::MachineObjects;
use capstan_controller::error::{Doing as _, Result};
use capstan_controller::owners;
use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use super::progress::Seen;

pub(super) async fn machine(client: &Client, desired: &MachineObjects) -> Result<Seen> {
    let (namespace, name) = (desired.machine.namespace().unwrap_or_default(), desired.machine.name_any());
    let config = desired.machine.spec.bootstrap.config_ref.as_ref().map(|config| config.name.as_str());
    let machine = found::<Machine>(client, &namespace, &name).await?;
    let owner = machine.as_ref().and_then(|machine| owners::controller_of(&machine.metadata));
    let set = owner.filter(|owner| owner.kind == "MachineSet").map(|owner| owner.name.clone());
    Ok(Seen {
        set: match set {
            Some(set) => found::<MachineSet>(client, &namespace, &set).await?,
            None => None,
        },
        machine,
        config: match config {
            Some(config) => found::<CapstanConfig>(client, &namespace, config).await?,
            None => None,
        },
        report: found::<MachineReport>(client, &namespace, &name).await?,
    })
}

async fn found<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.get_opt(name).await.doing(|| format!("cannot read {} {namespace}/{name}", K::kind(&())))
}
