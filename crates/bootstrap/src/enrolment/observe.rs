//! Reads the objects of one machine. Does not write.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_controller::error::{Error, Result};
use capstan_controller::{Cache, Cached, owners};
use capstan_plan::heartbeat;
use futures::future::try_join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind, NamespaceResourceScope};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

use super::decide::objects::{
    self, LEASE, REPORT, ROLE, ROLE_BINDING, ResourceKind, SERVICE_ACCOUNT, Wanted,
};
use crate::capstanconfig::Bootstrap;
use crate::contact;
use crate::names::Names;

/// The objects of one machine.
pub(crate) struct Own {
    pub(crate) names: Names,
    pub(crate) owner: Value,
    /// The interval of its agent's heartbeats.
    pub(crate) interval: Duration,
    pub(crate) found: Vec<Option<Value>>,
    pub(crate) enrolment: Option<Value>,
    pub(crate) report: Option<MachineReport>,
}

impl Bootstrap {
    pub(crate) async fn own(&self, config: &CapstanConfig, names: Names) -> Result<Own> {
        let owner = owners::controller(config).ok_or_else(|| Error::Conflict {
            doing: "cannot make objects for a CapstanConfig that is not stored".to_owned(),
        })?;
        let owner = serde_json::to_value(owner)
            .map_err(|error| Error::transient("cannot write a reference to an owner", error))?;
        let lease = self.beside::<Lease>(&names).get(&names.namespace, &names.lease()).await?;
        let interval = self.interval(lease.as_deref());
        let wanted = objects::wanted(&names, &owner, interval);
        let lease = lease.as_deref().map(value).transpose()?;
        let found = try_join_all(wanted.iter().map(|object| self.found(&names, object, lease.as_ref())));
        let (found, enrolment) = futures::try_join!(found, self.enrolment(&names))?;
        let report = wanted
            .iter()
            .zip(&found)
            .find(|(wanted, _)| wanted.kind == REPORT)
            .and_then(|(_, found)| found.clone())
            .map(serde_json::from_value::<MachineReport>)
            .transpose()
            .map_err(|error| Error::transient("cannot read a MachineReport", error))?
            // One of a former life says nothing about this machine.
            .filter(|report| report.spec.machine_id == names.machine_id);
        Ok(Own { names, owner, interval, found, enrolment, report })
    }

    /// The interval of heartbeats, by the number of machines that this process knows. It stays while that is unknown.
    fn interval(&self, lease: Option<&Lease>) -> Duration {
        let current = lease.and_then(|lease| lease.annotations().get(heartbeat::ANNOTATION));
        let current = current.and_then(|text| heartbeat::read(text));
        match self.caches.of::<CapstanConfig>().count_now() {
            Some(machines) => contact::interval(machines, current),
            None => current.unwrap_or(heartbeat::DEFAULT),
        }
    }

    /// An object of the machine's namespace, untyped.
    pub(crate) fn untyped(&self, namespace: &str, kind: ResourceKind) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
        Api::namespaced_with(self.client().clone(), namespace, &resource)
    }

    /// An object of the machine as it is, from the cache. Roles are compared every time, so that wider rights are taken back at
    /// once.
    async fn found(&self, names: &Names, wanted: &Wanted, lease: Option<&Value>) -> Result<Option<Value>> {
        let name = &wanted.name;
        match wanted.kind {
            REPORT => self.cached(&self.caches.of::<MachineReport>(), names, name).await,
            ROLE => self.cached(&self.beside::<Role>(names), names, name).await,
            ROLE_BINDING => self.cached(&self.beside::<RoleBinding>(names), names, name).await,
            SERVICE_ACCOUNT => self.cached(&self.beside::<ServiceAccount>(names), names, name).await,
            LEASE => Ok(lease.cloned()),
            other => unreachable!("machines have no {}", other.kind),
        }
    }

    fn beside<K>(&self, names: &Names) -> Cache<K>
    where
        K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.caches.beside_clusters(&names.namespace)
    }

    async fn cached<K>(&self, cache: &Cache<K>, names: &Names, name: &str) -> Result<Option<Value>>
    where
        K: Cached + Serialize + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let found = cache.get(&names.namespace, name).await?;
        found.map(|found| value(found.as_ref())).transpose()
    }

    /// The ServiceAccount of the enrolment token. Most machines have none, so it is read only if the cache has it.
    async fn enrolment(&self, names: &Names) -> Result<Option<Value>> {
        let accounts = self.beside::<ServiceAccount>(names);
        let found = accounts.peek(&names.namespace, &names.enrolment_account()).await?;
        found.map(|found| value(found.as_ref())).transpose()
    }
}

fn value(object: &impl Serialize) -> Result<Value> {
    serde_json::to_value(object).map_err(|error| Error::transient("cannot write an object down", error))
}
