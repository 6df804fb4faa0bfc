//! Templates: one whose content changes is replaced by a new one, so that its machines are rolled out.

use capstan_controller::apply::Change;
use capstan_controller::{Error, Result};
use capstan_topology::FieldError;
use capstan_topology::rotation::{Difference, Place, Rotation, settle};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ObjectMeta};
use serde_json::Value;

use super::super::decide::valid;
use super::super::names::{DRY_RUN, NameSuffixes, events};
use super::super::observe::{kind, value};
use super::base::of_object;
use super::{Writer, named};

/// A template that was created now.
pub(super) struct Created {
    pub(super) api: Api<DynamicObject>,
    pub(super) metadata: ObjectMeta,
}

/// How a template may differ from the one that it replaces.
pub(super) type Compatible = fn(&Value, &Value) -> Vec<FieldError>;

impl Writer<'_> {
    /// Creates, changes or replaces a template as its content says. Gives it if it was created.
    pub(super) async fn template(
        &mut self,
        place: &Place,
        current: Option<&DynamicObject>,
        is_compatible: Compatible,
    ) -> Result<Option<Created>> {
        let Some(wanted) = place.in_desired(&self.computed.desired).cloned() else { return Ok(None) };
        let api = self.api_of(&wanted).await?;
        let name = current.map(kube::ResourceExt::name_any);
        let known = match current {
            Some(current) => {
                let before = value(current)?;
                let subject = format!("{} {}/{}", kind(current), self.namespace, current.name_any());
                valid(&subject, &is_compatible(&before, &wanted))?;
                Some(self.difference(&api, current, &wanted).await?)
            }
            None => None,
        };
        let uid = self.cluster.uid().unwrap_or_default();
        let mut suffixes = NameSuffixes { uid: &uid };
        let known = name.as_deref().zip(known);
        let of_cluster = self.cluster.name_any();
        let rotation = settle(&of_cluster, place, known, &mut self.computed.desired, &mut suffixes);
        // It may have another name now.
        let Some(wanted) = place.in_desired(&self.computed.desired).cloned() else { return Ok(None) };
        let (of_kind, name) = named(&wanted);
        let object = format!("{of_kind} {}", self.quoted(name));
        match (rotation, current) {
            (Rotation::Keep, _) | (Rotation::Patch, None) => Ok(None),
            (Rotation::Patch, Some(current)) => {
                if self.apply(&api, current, &wanted).await? {
                    self.note(events::UPDATED, format!("Updated {object} (metadata changes)"));
                }
                Ok(None)
            }
            (Rotation::Create, _) => {
                let created = self.create(&api, &wanted).await?;
                self.note(events::CREATED, format!("Created {object}"));
                Ok(created.map(|created| Created { api, metadata: created.metadata }))
            }
            (Rotation::Replace { old }, _) => {
                let created = self.create(&api, &wanted).await?;
                let message = format!("Created {object} as a replacement for \"{old}\" (template rotation)");
                self.note(events::CREATED, message);
                Ok(created.map(|created| Created { api, metadata: created.metadata }))
            }
        }
    }

    async fn difference(
        &self,
        api: &Api<DynamicObject>,
        current: &DynamicObject,
        wanted: &Value,
    ) -> Result<Difference> {
        // Bootstrap templates may be of another kind in another class.
        if kind(current) != named(wanted).0 {
            return Ok(Difference::Spec);
        }
        let change = self.applier.foresee(api, current, &of_object(current, wanted), DRY_RUN).await;
        let change = change.map_err(|error| match error {
            error @ Error::Conflict { .. } => {
                Error::transient("cannot compare a template", capstan_controller::error::chain(&error))
            }
            error => error,
        })?;
        Ok(match change {
            Change::None => Difference::None,
            Change::Metadata => Difference::Metadata,
            Change::Spec => Difference::Spec,
        })
    }
}
