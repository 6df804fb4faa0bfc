//! Reads the objects of a cluster that plans and machines are decided from.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::{Machine, MachineDeployment};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::Knowledge;
use capstan_controller::cache::Cached;
use capstan_controller::error::{Doing as _, Result};
use capstan_controller::secrets::Purpose;
use capstan_controller::spare::{self, Spare};
use capstan_plan::SECRET_TYPE;
use capstan_planner::budget::Budgets;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::groups::{self, Replacements};
use super::hosts::Hosts;
use crate::certificates::NEEDED;
use crate::healing;
use crate::scope::Scope;

/// The Secrets of the cluster.
#[derive(Default)]
pub(crate) struct Secrets {
    pub(crate) by_purpose: BTreeMap<Purpose, Secret>,
    pub(crate) plans: BTreeMap<String, Arc<Secret>>,
}

/// The Machines of the cluster and what belongs to them, by the Machine's name.
#[derive(Default)]
pub(crate) struct Machines {
    pub(crate) machines: BTreeMap<String, Arc<Machine>>,
    pub(crate) configs: BTreeMap<String, Arc<CapstanConfig>>,
    pub(crate) reports: BTreeMap<String, Arc<MachineReport>>,
    pub(crate) hosts: Hosts,
    /// Machines whose agent has been silent for longer than the limit, and since when.
    pub(crate) silent: BTreeMap<String, Timestamp>,
    /// How many machines each group of workers may do without.
    pub(crate) budgets: Budgets,
    /// Whether and how workers are replaced.
    pub(crate) replacements: Replacements,
}

impl Scope<'_> {
    pub(crate) async fn secrets(&self) -> Result<Secrets> {
        let cluster = self.cluster_name();
        let labelled = self.caches.beside_clusters::<Secret>(self.namespace);
        let mut found = Secrets::default();
        for secret in labelled.of_cluster(self.namespace, &cluster).await? {
            if secret.type_.as_deref() == Some(SECRET_TYPE) {
                found.plans.insert(secret.name_any(), secret);
            } else if let Some(purpose) = purpose_of(&secret.name_any(), &cluster) {
                found.by_purpose.insert(purpose, Arc::unwrap_or_clone(secret));
            }
        }
        // What users bring may have no label.
        for purpose in NEEDED.into_iter().chain([Purpose::Kubeconfig]) {
            if found.by_purpose.contains_key(&purpose) {
                continue;
            }
            if let Some(secret) = labelled.get(self.namespace, &purpose.secret_name(&cluster)).await? {
                found.by_purpose.insert(purpose, Arc::unwrap_or_clone(secret));
            }
        }
        Ok(found)
    }

    pub(crate) async fn machines(&self) -> Result<Machines> {
        let machines = by_name(self.of_cluster::<Machine>().await?);
        let mut by_name_of_config = by_name(self.of_cluster::<CapstanConfig>().await?);
        let mut configs = BTreeMap::new();
        for (name, machine) in &machines {
            let Some(reference) = machine.spec.bootstrap.config_ref.as_ref() else { continue };
            if reference.kind != "CapstanConfig" || reference.api_group != "bootstrap.cluster.x-k8s.io" {
                continue;
            }
            let config = match by_name_of_config.remove(&reference.name) {
                Some(config) => Some(config),
                // Core has not labelled it yet.
                None => self.caches.of::<CapstanConfig>().get(self.namespace, &reference.name).await?,
            };
            configs.extend(config.map(|config| (name.clone(), config)));
        }
        let reports = by_name(self.of_cluster::<MachineReport>().await?);
        let hosts = self.hosts(&machines).await;
        let deployments = self.of_cluster::<MachineDeployment>().await?;
        let (budgets, replacements) = (groups::budgets(&deployments), Replacements::of(&deployments));
        let limit = healing::ladder(self.owner.spec.healing.as_ref()).silent_after;
        if self.contacts.is_due(self.namespace, &self.cluster_name(), self.now) {
            self.contacts.heard(self.namespace, &self.cluster_name(), &self.leases().await?, self.now);
        }
        let silent = self.contacts.silent(self.namespace, &self.cluster_name(), limit, self.now);
        Ok(Machines { machines, configs, reports, hosts, silent, budgets, replacements })
    }

    /// The version and template of the next machine of an infrastructure template.
    pub(crate) async fn spare(
        &self,
        template: Option<&ContractVersionedObjectReference>,
    ) -> Result<Knowledge<Spare>> {
        let Some(reference) = template else {
            return Ok(Knowledge::unknown(
                "no MachineDeployment says from which template the machine is made",
            ));
        };
        Ok(match self.externals.get(reference, self.namespace).await? {
            Some(template) => spare::of(&template),
            None => Knowledge::Unknown(format!("there is no {} {}", reference.kind, reference.name)),
        })
    }

    async fn of_cluster<K>(&self) -> Result<Vec<Arc<K>>>
    where
        K: Cached + Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        self.caches.of::<K>().of_cluster(self.namespace, &self.cluster_name()).await
    }

    /// A live read of the Machines, before one is deleted.
    pub(crate) async fn machines_live(&self) -> Result<Vec<Machine>> {
        self.list().await
    }

    /// Agents renew their Leases too often for a watch.
    async fn leases(&self) -> Result<Vec<Lease>> {
        self.list().await
    }

    async fn list<K>(&self) -> Result<Vec<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let mine = ListParams::default().labels(&format!("{}={}", labels::CLUSTER_NAME, self.cluster_name()));
        let list = self.api::<K>().list(&mine).await;
        Ok(list.doing(|| format!("cannot list {} of Cluster {}", K::plural(&()), self.cluster_name()))?.items)
    }
}

fn by_name<K: kube::ResourceExt>(objects: Vec<Arc<K>>) -> BTreeMap<String, Arc<K>> {
    objects.into_iter().map(|object| (object.name_any(), object)).collect()
}

fn purpose_of(name: &str, cluster: &str) -> Option<Purpose> {
    NEEDED.into_iter().chain([Purpose::Kubeconfig]).find(|purpose| purpose.secret_name(cluster) == name)
}
