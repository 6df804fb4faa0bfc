//! The scope of one reconcile: its objects, and access to more.

use capstan_api::controlplane::{CapstanControlPlane, ControlPlaneRolloutStrategyType};
use capstan_api::core::{Cluster, NetworkRanges};
use capstan_controller::Caches;
use capstan_controller::error::{Doing as _, Result};
use capstan_controller::external::Externals;
use capstan_distro::{Endpoint, Network};
use capstan_planner::machines::Remediated;
use capstan_planner::plans::Elected;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::certificates::KeyDigests;
use crate::healing::contact::Contacts;
use crate::names::{INIT_MACHINE, INITIALIZED, KEY_DIGESTS, NETWORK, NEXT_MACHINE, REMEDIATION};

/// The inputs of every phase of a reconcile.
pub(crate) struct Scope<'a> {
    pub(crate) caches: &'a Caches,
    pub(crate) externals: &'a Externals,
    pub(crate) owner: &'a CapstanControlPlane,
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespace: &'a str,
    /// The management plane of this process.
    pub(crate) plane: &'a str,
    pub(crate) now: Timestamp,
    /// When agents were last seen to renew their Leases.
    pub(crate) contacts: &'a Contacts,
    /// Returns a random suffix for the name of a new machine.
    pub(crate) suffix: &'a (dyn Fn() -> String + Send + Sync),
}

impl Scope<'_> {
    pub(crate) fn client(&self) -> &Client {
        self.caches.client()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client().clone(), self.namespace)
    }

    pub(crate) async fn get<K>(&self, name: &str) -> Result<Option<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>()
            .get_opt(name)
            .await
            .doing(|| format!("cannot read {} {}/{name}", K::kind(&()), self.namespace))
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: &Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        self.api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .doing(|| format!("cannot change {} {}/{name}", K::kind(&()), self.namespace))
    }

    /// Sets or removes annotations of the control plane, unless the object has changed since it was read.
    pub(crate) async fn record(
        &self,
        read: &CapstanControlPlane,
        annotations: &[(&str, Option<&str>)],
    ) -> Result<CapstanControlPlane> {
        let annotations: BTreeMap<&str, Option<&str>> = annotations.iter().copied().collect();
        let patch = json!({"metadata": {
            "resourceVersion": read.resource_version(),
            "annotations": annotations,
        }});
        self.patch(&read.name_any(), &patch).await
    }

    pub(crate) fn cluster_name(&self) -> String {
        self.cluster.name_any()
    }

    /// The address of the cluster's API server, if known.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        let endpoint =
            self.cluster.spec.control_plane_endpoint.as_ref().filter(|endpoint| endpoint.is_valid())?;
        let port = endpoint.port.and_then(|port| u16::try_from(port).ok())?;
        Some(Endpoint { host: endpoint.host.clone()?, port })
    }

    pub(crate) fn is_infrastructure_provisioned(&self) -> bool {
        let status = self.cluster.status.as_ref();
        let provisioned =
            status.and_then(|status| status.initialization.as_ref()?.infrastructure_provisioned);
        provisioned == Some(true)
    }

    /// Whether the cluster is initialized. The annotation counts, because status does not survive a move.
    pub(crate) fn is_initialized(&self) -> bool {
        self.owner.annotations().contains_key(INITIALIZED)
    }

    /// The machine that initializes, or has initialized, the cluster.
    pub(crate) fn elected(&self) -> Option<Elected> {
        self.owner.annotations().get(INIT_MACHINE).and_then(|text| Elected::parse(text))
    }

    /// Addresses inside the cluster, from its Cluster.
    pub(crate) fn asked_network(&self) -> Network {
        let network = self.cluster.spec.cluster_network.as_ref();
        let blocks =
            |ranges: Option<&NetworkRanges>| ranges.map(|r| r.cidr_blocks.clone()).unwrap_or_default();
        Network {
            pods: blocks(network.and_then(|network| network.pods.as_ref())),
            services: blocks(network.and_then(|network| network.services.as_ref())),
            domain: network.and_then(|network| network.service_domain.clone()),
            api_server_port: network.and_then(|network| u16::try_from(network.api_server_port?).ok()),
        }
    }

    /// Addresses inside the cluster, as recorded when it was initialized.
    pub(crate) fn network(&self) -> Network {
        let decided = self.owner.annotations().get(NETWORK).and_then(|text| serde_json::from_str(text).ok());
        decided.unwrap_or_else(|| self.asked_network())
    }

    /// The last machine that was replaced because it was unhealthy.
    pub(crate) fn remediated(&self) -> Option<Remediated> {
        self.owner.annotations().get(REMEDIATION).and_then(|text| serde_json::from_str(text).ok())
    }

    /// Recorded digests of certificates and keys; `None` if the cluster was initialized by a version that did not
    /// record them.
    pub(crate) fn key_digests(&self) -> Option<KeyDigests> {
        self.owner.annotations().get(KEY_DIGESTS).and_then(|text| serde_json::from_str(text).ok())
    }

    /// Whether a machine may be replaced if nothing else is possible.
    pub(crate) fn may_replace(&self) -> bool {
        may_replace(self.owner)
    }

    /// The name of the machine that is being created.
    pub(crate) fn begun(&self) -> Option<&str> {
        self.owner.annotations().get(NEXT_MACHINE).map(String::as_str)
    }
}

/// Whether a machine of the control plane may be replaced if nothing else is possible.
pub(crate) fn may_replace(owner: &CapstanControlPlane) -> bool {
    let strategy = owner.spec.rollout.as_ref().and_then(|rollout| rollout.strategy.as_ref());
    strategy.is_some_and(|strategy| strategy.type_ == ControlPlaneRolloutStrategyType::InPlaceOrReplace)
}

/// The desired number of machines.
pub(crate) fn replicas(object: &CapstanControlPlane) -> usize {
    object.spec.replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or(1)
}
