//! The control plane: its health check, the template of its machines, and the object itself.

use capstan_api::core::MachineHealthCheck;
use capstan_controller::{Grounds, Result, destroy};
use capstan_topology::rotation::Place;
use capstan_topology::validation::compatible_objects;
use kube::ResourceExt as _;
use serde_json::Value;
use std::sync::Arc;

use super::super::names::events;
use super::super::observe::kind;
use super::template::Referrer;
use super::{Writer, named};

impl Writer<'_> {
    /// Writes the control plane, unless its upgrade is pending: then it would be rolled out twice.
    pub(super) async fn control_plane(&mut self) -> Result<()> {
        let wanted = self.computed.desired.control_plane.health_check.clone();
        self.health_check(self.objects.control_plane_check.as_ref(), wanted.as_ref()).await?;
        if self.computed.progress.control_plane.is_pending {
            return Ok(());
        }
        let objects = self.objects;
        let template = objects.control_plane_machines.as_ref();
        let referrer = match &objects.control_plane {
            Some(object) => Some(Referrer {
                api: self.api_of(&self.computed.desired.control_plane.object).await?,
                name: object.name_any(),
                generation: object.metadata.generation,
            }),
            None => None,
        };
        let created =
            self.template(&Place::ControlPlane, template, referrer.as_ref(), compatible_objects).await?;
        let desired = self.computed.desired.control_plane.object.clone();
        let written = self.object(objects.control_plane.as_ref(), &desired, Some("/spec/version")).await;
        if let Err(error) = written {
            self.discard(created.into_iter().collect(), &error).await;
            return Err(error);
        }
        self.delete_replaced_template().await
    }

    /// Deletes the template of the machines that the control plane does not refer to any more.
    async fn delete_replaced_template(&self) -> Result<()> {
        let Some(old) = &self.objects.control_plane_machines else { return Ok(()) };
        let Some(new) = &self.computed.desired.control_plane.machine_template else { return Ok(()) };
        if old.name_any() == named(new).1 {
            return Ok(());
        }
        let (api_version, of_kind) = match &old.types {
            Some(types) => (types.api_version.as_str(), kind(old)),
            None => return Ok(()),
        };
        let api = self.core.externals.api_version(api_version, &of_kind, &self.namespace).await?;
        let grounds = Grounds::asked("the control plane refers to another template now");
        destroy::delete(&api, &old.metadata, &grounds).await
    }

    /// Creates, changes or deletes a health check.
    pub(super) async fn health_check(
        &mut self,
        current: Option<&Arc<MachineHealthCheck>>,
        desired: Option<&Value>,
    ) -> Result<()> {
        let api = self.core.api::<MachineHealthCheck>(&self.namespace);
        match (current, desired) {
            (None, None) => Ok(()),
            (None, Some(desired)) => {
                self.create(&api, desired).await?;
                let message = format!("Created MachineHealthCheck {}", self.quoted(named(desired).1));
                self.note(events::CREATED, message);
                Ok(())
            }
            (Some(current), Some(desired)) => {
                if self.apply(&api, current.as_ref(), desired).await? {
                    let message = format!("Updated MachineHealthCheck {}", self.quoted(named(desired).1));
                    self.note(events::UPDATED, message);
                }
                Ok(())
            }
            (Some(current), None) => {
                if current.metadata.deletion_timestamp.is_some() {
                    return Ok(());
                }
                let grounds = Grounds::asked("its topology has no health check");
                destroy::delete(&api, &current.metadata, &grounds).await?;
                let message = format!("Deleted MachineHealthCheck {}", self.quoted(&current.name_any()));
                self.note(events::DELETED, message);
                Ok(())
            }
        }
    }
}
