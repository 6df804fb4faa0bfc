//! Reads the objects of one machine. Does not write.

use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::{Cache, Cached, owners};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DynamicObject};
use kube::core::NamespaceResourceScope;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;
use std::time::Instant;

use super::decide::objects::{self, REPORT, ROLE, ROLE_BINDING, ResourceKind, SERVICE_ACCOUNT, Wanted};
use crate::capstanconfig::Bootstrap;
use crate::names::Names;

/// The objects of one machine.
pub(crate) struct Own {
    pub(crate) names: Names,
    pub(crate) owner: Value,
    pub(crate) found: Vec<Option<Value>>,
    /// Whether its Lease was not read, because it was verified recently.
    pub(crate) are_verified: bool,
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
        let wanted = objects::wanted(&names, &owner);
        let are_verified = self.verified_objects.holds(&config.uid().unwrap_or_default(), Instant::now());
        let found = try_join_all(wanted.iter().map(|object| self.found(&names, object, are_verified)));
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
        Ok(Own { names, owner, found, are_verified, enrolment, report })
    }

    /// An object of the machine's namespace, untyped.
    pub(crate) fn untyped(&self, namespace: &str, kind: ResourceKind) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
        Api::namespaced_with(self.client().clone(), namespace, &resource)
    }

    async fn find(&self, names: &Names, kind: ResourceKind, name: &str) -> Result<Option<Value>> {
        let doing = || format!("cannot read {} {}/{name}", kind.kind, names.namespace);
        let found = self.untyped(&names.namespace, kind).get_opt(name).await.doing(doing)?;
        found.map(serde_json::to_value).transpose().map_err(|error| Error::transient(doing(), error))
    }

    /// Reads an object of the machine. An object that grants no rights is assumed to be as desired if it was verified
    /// recently.
    async fn found(&self, names: &Names, wanted: &Wanted, are_verified: bool) -> Result<Option<Value>> {
        let (kind, name) = (wanted.kind, &wanted.name);
        if kind == REPORT {
            return self.cached(&self.caches.of::<MachineReport>(), names, name).await;
        }
        // What these grant is compared every time, so that wider rights are taken back at once.
        if kind == ROLE {
            return self.cached(&self.beside::<Role>(names), names, name).await;
        }
        if kind == ROLE_BINDING {
            return self.cached(&self.beside::<RoleBinding>(names), names, name).await;
        }
        // It is told from another one of its name by its UID.
        if kind == SERVICE_ACCOUNT {
            return self.cached(&self.beside::<ServiceAccount>(names), names, name).await;
        }
        match are_verified {
            true => Ok(Some(wanted.object.clone())),
            false => self.find(names, kind, name).await,
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
