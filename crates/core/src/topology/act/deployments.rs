//! MachineDeployments: their templates first, because they refer to them, and their health checks.

use capstan_api::core::MachineDeployment;
use capstan_controller::{Grounds, Result, destroy};
use capstan_topology::FieldError;
use capstan_topology::metadata::DEPLOYMENT_NAME;
use capstan_topology::rotation::Place;
use capstan_topology::validation::compatible_objects;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::core::ApiResource;
use serde_json::Value;

use super::super::names::events;
use super::super::observe::{Deployment, topology_names, value};
use super::base::change;
use super::template::{Created, Referrer};
use super::{Writer, named};

const VERSION: &str = "/spec/template/spec/version";

/// Bootstrap templates may be of any kind: machines are replaced anyway.
fn any_kind(_: &Value, _: &Value) -> Vec<FieldError> {
    Vec::new()
}

impl Writer<'_> {
    /// Creates, changes and deletes MachineDeployments.
    pub(super) async fn machine_deployments(&mut self) -> Result<()> {
        let objects = self.objects;
        let api = self.core.api::<MachineDeployment>(&self.namespace);
        let wanted: Vec<String> = self.computed.desired.machine_deployments.keys().cloned().collect();
        let mut existing = None;
        for name in &wanted {
            match objects.machine_deployments.get(name) {
                Some(current) => Box::pin(self.update_deployment(&api, name, current)).await?,
                None => {
                    if self.computed.progress.machine_deployments.pending_create.contains(name) {
                        continue;
                    }
                    let existing = match &mut existing {
                        Some(existing) => existing,
                        unread => {
                            let cluster = self.cluster.name_any();
                            unread.insert(topology_names(&api, &cluster, DEPLOYMENT_NAME).await?)
                        }
                    };
                    if !existing.contains(name) {
                        Box::pin(self.create_deployment(&api, name)).await?;
                    }
                }
            }
        }
        for (name, current) in &objects.machine_deployments {
            if !wanted.contains(name) {
                self.delete_deployment(&api, current).await?;
            }
        }
        Ok(())
    }

    /// Both templates of a MachineDeployment. If the second fails, the first is deleted again.
    async fn templates(&mut self, name: &str, current: Option<&Deployment>) -> Result<Vec<Created>> {
        let referrer = current.map(|current| Referrer {
            api: Api::namespaced_with(
                self.core.client.clone(),
                &self.namespace,
                &ApiResource::erase::<MachineDeployment>(&()),
            ),
            name: current.object.name_any(),
            generation: current.object.metadata.generation,
        });
        let referrer = referrer.as_ref();
        let place = Place::Infrastructure(name.to_owned());
        let template = current.and_then(|current| current.infrastructure.as_ref());
        let first = self.template(&place, template, referrer, compatible_objects).await?;
        let place = Place::Bootstrap(name.to_owned());
        let template = current.and_then(|current| current.bootstrap.as_ref());
        match self.template(&place, template, referrer, any_kind).await {
            Ok(second) => Ok(first.into_iter().chain(second).collect()),
            Err(error) => {
                self.discard(first.into_iter().collect(), &error).await;
                Err(error)
            }
        }
    }

    async fn create_deployment(&mut self, api: &Api<MachineDeployment>, name: &str) -> Result<()> {
        let created = self.templates(name, None).await?;
        let Some(desired) = self.computed.desired.machine_deployments.get(name).cloned() else {
            return Ok(());
        };
        if let Err(error) = self.create(api, &desired.object).await {
            self.discard(created, &error).await;
            return Err(error);
        }
        let message = format!("Created MachineDeployment {}", self.quoted(named(&desired.object).1));
        self.note(events::CREATED, message);
        self.health_check(None, desired.health_check.as_ref()).await
    }

    async fn update_deployment(
        &mut self,
        api: &Api<MachineDeployment>,
        name: &str,
        current: &Deployment,
    ) -> Result<()> {
        let Some(desired) = self.computed.desired.machine_deployments.get(name) else { return Ok(()) };
        let check = desired.health_check.clone();
        let of_kind = current.object.name_any();
        if current.object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        self.health_check(current.check.as_ref(), check.as_ref()).await?;
        // Its new templates come with the new version, so that its machines are rolled out once.
        if self.computed.progress.machine_deployments.pending.contains(&of_kind) {
            return Ok(());
        }
        let created = self.templates(name, Some(current)).await?;
        let Some(desired) = self.computed.desired.machine_deployments.get(name) else { return Ok(()) };
        match self.apply(api, current.object.as_ref(), &desired.object).await {
            Ok(false) => Ok(()),
            Ok(true) => {
                let change = change(&value(current.object.as_ref())?, &desired.object, VERSION);
                let message = format!("Updated MachineDeployment {}{change}", self.quoted(&of_kind));
                self.note(events::UPDATED, message);
                Ok(())
            }
            Err(error) => {
                self.discard(created, &error).await;
                Err(error)
            }
        }
    }

    /// Deletes a MachineDeployment that is not in the topology any more. Its templates go with it.
    async fn delete_deployment(&mut self, api: &Api<MachineDeployment>, current: &Deployment) -> Result<()> {
        if current.object.metadata.deletion_timestamp.is_some() {
            return self.health_check(current.check.as_ref(), None).await;
        }
        self.ensure_topology_is_current().await?;
        self.health_check(current.check.as_ref(), None).await?;
        let grounds = Grounds::asked("it is not in the topology of its Cluster any more");
        destroy::delete(api, &current.object.metadata, &grounds).await?;
        let message = format!("Deleted MachineDeployment {}", self.quoted(&current.object.name_any()));
        self.note(events::DELETED, message);
        Ok(())
    }
}
