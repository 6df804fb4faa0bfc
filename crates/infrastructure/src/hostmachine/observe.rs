//! What a reconcile of a HostMachine reads. No writes.

use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine};
use capstan_api::meta::labels;
use capstan_controller::error::Doing as _;
use capstan_controller::plane::hand_over;
use capstan_controller::{Result, owners};
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource as _, ResourceExt as _};
use std::sync::Arc;

use super::decide::Observed;
use super::decide::release::claimed;
use crate::context::Infrastructure;
use crate::driver::{BootstrapData, HandOver};

/// The objects above a HostMachine. Hosts are read again for every step.
pub(super) struct Related {
    /// Its Machine.
    pub(super) owner: Option<Arc<Machine>>,
    /// The Cluster of both.
    pub(super) cluster: Option<Arc<Cluster>>,
    /// The HostCluster of that, if it has one.
    pub(super) host_cluster: Option<Arc<HostCluster>>,
}

impl Related {
    /// All inputs of the decision.
    pub(super) fn with<'a>(&'a self, machine: &'a HostMachine, hosts: &'a [Arc<Host>]) -> Observed<'a> {
        Observed {
            machine,
            owner: self.owner.as_deref(),
            cluster: self.cluster.as_deref(),
            host_cluster: self.host_cluster.as_deref(),
            hosts,
        }
    }
}

/// Reads the objects above a HostMachine.
pub(super) async fn related(infrastructure: &Infrastructure, machine: &HostMachine) -> Result<Related> {
    let namespace = machine.namespace().unwrap_or_default();
    let owner: Option<Arc<Machine>> = match owners::of_kind(machine.meta(), "Machine", &Machine::group(&())) {
        Some(owner) => infrastructure.remembered(&namespace, &owner.name).await?,
        None => None,
    };
    let cluster: Option<Arc<Cluster>> = match cluster_name(machine, owner.as_deref()) {
        Some(name) => infrastructure.remembered(&namespace, &name).await?,
        None => None,
    };
    let reference = cluster.as_ref().and_then(|cluster| cluster.spec.infrastructure_ref.as_ref());
    let host_cluster = match reference {
        Some(reference) if reference.kind == HostCluster::kind(&()) => {
            infrastructure.remembered(&namespace, &reference.name).await?
        }
        _ => None,
    };
    Ok(Related { owner, cluster, host_cluster })
}

/// The hosts that a HostMachine may have, from the cache. For a recorded host it is only that one, if no second host
/// carries the claim (`is_single`).
pub(super) async fn hosts(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
    is_single: bool,
) -> Result<Vec<Arc<Host>>> {
    let namespace = machine.namespace().unwrap_or_default();
    match &machine.spec.host_name {
        Some(name) if is_single => {
            Ok(infrastructure.remembered_host(&namespace, name).await?.into_iter().collect())
        }
        _ => infrastructure.remembered_hosts(&namespace).await,
    }
}

/// The hosts that carry the machine's claim according to the cache, each read from the API server: a host is reset only
/// if it is claimed now.
pub(super) async fn claimed_hosts(
    infrastructure: &Infrastructure,
    machine: &HostMachine,
) -> Result<Vec<Arc<Host>>> {
    let namespace = machine.namespace().unwrap_or_default();
    let remembered = infrastructure.remembered_hosts(&namespace).await?;
    let api = infrastructure.api::<Host>(&namespace);
    let mut found = Vec::new();
    for host in claimed(machine, &remembered) {
        let name = host.name_any();
        let host = api.get_opt(&name).await.doing(|| format!("cannot read Host {namespace}/{name}"))?;
        found.extend(host.map(Arc::new));
    }
    Ok(found)
}

/// Name of the Cluster that a HostMachine is for.
pub(super) fn cluster_name(machine: &HostMachine, owner: Option<&Machine>) -> Option<String> {
    owner
        .map(|owner| owner.spec.cluster_name.clone())
        .or_else(|| machine.labels().get(labels::CLUSTER_NAME).cloned())
}

/// The bootstrap data in a Secret, or why there is none.
pub(super) async fn bootstrap_data(
    infrastructure: &Infrastructure,
    namespace: &str,
    name: &str,
) -> Result<std::result::Result<BootstrapData, String>> {
    let Some(mut data) = secret(infrastructure, namespace, name).await?.map(|it| it.data.unwrap_or_default())
    else {
        return Ok(Err(format!("the Secret {name} with the bootstrap data does not exist")));
    };
    let Some(value) = data.remove("value") else {
        return Ok(Err(format!("the Secret {name} with the bootstrap data has no key `value`")));
    };
    let format = data.remove("format").and_then(|format| String::from_utf8(format.0).ok());
    let format = format.unwrap_or_else(|| "cloud-config".to_owned());
    Ok(Ok(BootstrapData { value: value.0, format }))
}

/// The hand-over for the agent, if the bootstrap provider has put one into the Secret.
pub(super) async fn hand_over(
    infrastructure: &Infrastructure,
    namespace: &str,
    name: &str,
) -> Result<Option<HandOver>> {
    let found = secret(infrastructure, namespace, name).await?;
    let asked = found.filter(|secret| secret.labels().contains_key(hand_over::LABEL));
    Ok(asked.and_then(|secret| secret.data?.remove(hand_over::KEY)).map(|bytes| HandOver(bytes.0)))
}

async fn secret(infrastructure: &Infrastructure, namespace: &str, name: &str) -> Result<Option<Secret>> {
    let found = infrastructure.api::<Secret>(namespace).get_opt(name).await;
    found.doing(|| format!("cannot read Secret {namespace}/{name}"))
}
