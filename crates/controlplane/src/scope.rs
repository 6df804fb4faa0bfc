//! One reconcile: the objects it is about, and access to more.

use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Cluster;
use capstan_controller::error::{Doing as _, Result};
use capstan_controller::external::Externals;
use capstan_distro::Endpoint;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

use crate::names::{INIT_MACHINE, INITIALIZED, NEXT_MACHINE};
use crate::planner::Elected;

/// What every phase of a reconcile is given.
pub(crate) struct Scope<'a> {
    pub(crate) client: &'a Client,
    pub(crate) externals: &'a Externals,
    pub(crate) owner: &'a CapstanControlPlane,
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespace: &'a str,
    pub(crate) now: Timestamp,
}

impl Scope<'_> {
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
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

    /// Writes an annotation of the control plane, or takes it away, unless the object has changed since it was read.
    pub(crate) async fn record(
        &self,
        read: &CapstanControlPlane,
        key: &str,
        value: Option<&str>,
    ) -> Result<CapstanControlPlane> {
        let patch = json!({"metadata": {
            "resourceVersion": read.resource_version(),
            "annotations": {key: value},
        }});
        self.patch(&read.name_any(), &patch).await
    }

    pub(crate) fn cluster_name(&self) -> String {
        self.cluster.name_any()
    }

    /// Where the cluster's API server is reached, once that is known.
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

    /// Whether the cluster has begun. The annotation counts, because status does not survive a move.
    pub(crate) fn is_initialized(&self) -> bool {
        self.owner.annotations().contains_key(INITIALIZED)
    }

    /// The machine that begins, or began, the cluster.
    pub(crate) fn elected(&self) -> Option<Elected> {
        self.owner.annotations().get(INIT_MACHINE).and_then(|text| Elected::parse(text))
    }

    /// The name of a machine that was begun.
    pub(crate) fn begun(&self) -> Option<&str> {
        self.owner.annotations().get(NEXT_MACHINE).map(String::as_str)
    }
}
