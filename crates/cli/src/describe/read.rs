//! Reads the objects of the tree.

use anyhow::{Context, Result};
use capstan_api::addons::ClusterResourceSetBinding;
use capstan_api::agent::MachineReport;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachinePool, MachineSet};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::external::Externals;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

use super::tree::Snapshot;

/// Reads the objects of a cluster. The requests are not atomic, so objects may change in between.
pub(crate) async fn read(client: Client, namespace: &str, name: &str) -> Result<Snapshot> {
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    let cluster = clusters
        .get_opt(name)
        .await
        .with_context(|| format!("cannot read Cluster {namespace}/{name}"))?
        .with_context(|| format!("there is no Cluster {name} in namespace {namespace}"))?;
    let externals = Externals::new(client.clone());
    let machines: Vec<Machine> = list(&client, namespace, Some(name)).await?;
    let reports: Vec<MachineReport> = list(&client, namespace, None).await?;
    let bindings: Api<ClusterResourceSetBinding> = Api::namespaced(client.clone(), namespace);
    // Upstream gives the binding the name of its cluster.
    let binding = bindings.get_opt(name).await.unwrap_or_default();

    let (mut infrastructure_machines, mut bootstrap_configs) = (Vec::new(), Vec::new());
    for machine in &machines {
        let spec = &machine.spec;
        infrastructure_machines
            .extend(external(&externals, Some(&spec.infrastructure_ref), namespace).await?);
        bootstrap_configs.extend(external(&externals, spec.bootstrap.config_ref.as_ref(), namespace).await?);
    }
    Ok(Snapshot {
        infrastructure: external(&externals, cluster.spec.infrastructure_ref.as_ref(), namespace).await?,
        control_plane: external(&externals, cluster.spec.control_plane_ref.as_ref(), namespace).await?,
        cluster: value(&cluster)?,
        deployments: values(&list::<MachineDeployment>(&client, namespace, Some(name)).await?)?,
        machine_sets: values(&list::<MachineSet>(&client, namespace, Some(name)).await?)?,
        machine_pools: values(&list::<MachinePool>(&client, namespace, Some(name)).await?)?,
        machines: values(&machines)?,
        reports: values(&reports)?,
        resource_sets: binding.iter().flat_map(sets).collect(),
        infrastructure_machines,
        bootstrap_configs,
    })
}

fn sets(binding: &ClusterResourceSetBinding) -> Vec<String> {
    let binding = serde_json::to_value(&binding.spec).unwrap_or_default();
    let sets = binding["bindings"].as_array().cloned().unwrap_or_default();
    sets.iter().filter_map(|set| set["clusterResourceSetName"].as_str().map(str::to_owned)).collect()
}

/// All of a kind, of one cluster if that is named. A plane that does not know the kind has none.
async fn list<K>(client: &Client, namespace: &str, cluster: Option<&str>) -> Result<Vec<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let params = match cluster {
        Some(name) => ListParams::default().labels(&format!("{}={name}", labels::CLUSTER_NAME)),
        None => ListParams::default(),
    };
    match Api::<K>::namespaced(client.clone(), namespace).list(&params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => Ok(listed.with_context(|| format!("cannot list {}", K::plural(&())))?.items),
    }
}

/// The object of a reference, if it exists.
pub(crate) async fn external(
    externals: &Externals,
    reference: Option<&ContractVersionedObjectReference>,
    namespace: &str,
) -> Result<Option<Value>> {
    let Some(reference) = reference else { return Ok(None) };
    let object = externals.get(reference, namespace).await?;
    object.map(|object| serde_json::to_value(&object).context("cannot serialise an object")).transpose()
}

/// With its kind, which objects of a list come without.
fn value<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Result<Value> {
    let mut value = serde_json::to_value(object).context("cannot serialise an object")?;
    value["kind"] = json!(K::kind(&()));
    Ok(value)
}

fn values<K: Resource<DynamicType = ()> + Serialize>(objects: &[K]) -> Result<Vec<Value>> {
    objects.iter().map(value).collect()
}
