//! Templates: one whose content changes is replaced by a new one, so that its machines are rolled out.

use capstan_controller::apply::Change;
use capstan_controller::error::Doing as _;
use capstan_controller::{Error, Result};
use capstan_topology::FieldError;
use capstan_topology::metadata::OWNED;
use capstan_topology::names::from_prefix;
use capstan_topology::rotation::{Difference, Place, Rotation, rename, settle};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ObjectMeta};
use serde_json::Value;

use super::super::decide::valid;
use super::super::names::{DRY_RUN, NameSuffixes, events, of_content};
use super::super::observe::{kind, value};
use super::base::of_object;
use super::{Writer, named, text};

/// A template that was created now.
pub(super) struct Created {
    pub(super) api: Api<DynamicObject>,
    pub(super) metadata: ObjectMeta,
}

/// The object that refers to a template, as it was read.
#[derive(Clone)]
pub(super) struct Referrer {
    pub(super) api: Api<DynamicObject>,
    pub(super) name: String,
    pub(super) generation: Option<i64>,
}

impl Referrer {
    /// Whether it is still as it was read. What is in memory may be a moment old: it may refer to a newer template already,
    /// which must not be replaced once more, because its machines would be rolled out twice.
    async fn ensure_unchanged(&self) -> Result<()> {
        let doing = || format!("cannot replace a template of {}", self.name);
        let found = self.api.get_metadata(&self.name).await.doing(doing)?;
        match found.metadata.generation == self.generation {
            true => Ok(()),
            false => Err(Error::Conflict { doing: doing() }),
        }
    }
}

/// How a template may differ from the one that it replaces.
pub(super) type Compatible = fn(&Value, &Value) -> Vec<FieldError>;

impl Writer<'_> {
    /// Creates, changes or replaces a template as its content says. Gives it if it was created.
    pub(super) async fn template(
        &mut self,
        place: &Place,
        current: Option<&DynamicObject>,
        referrer: Option<&Referrer>,
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
        let mut random = NameSuffixes { uid: &uid };
        let known = name.as_deref().zip(known);
        let of_cluster = self.cluster.name_any();
        let desired = &mut self.computed.desired;
        let rotation = settle(&of_cluster, place, known, desired, &mut random);
        match (rotation, current) {
            (Rotation::Keep, _) | (Rotation::Patch, None) => Ok(None),
            (Rotation::Patch, Some(current)) => {
                self.patch(&api, current, &wanted).await?;
                Ok(None)
            }
            (Rotation::Create, _) => self.make(place, &api, referrer, "").await,
            (Rotation::Replace { old }, _) => {
                let how = format!(" as a replacement for \"{old}\" (template rotation)");
                self.make(place, &api, referrer, &how).await
            }
        }
    }

    async fn patch(
        &mut self,
        api: &Api<DynamicObject>,
        current: &DynamicObject,
        wanted: &Value,
    ) -> Result<()> {
        if self.apply(api, current, wanted).await? {
            let (kind, name) = named(wanted);
            let message = format!("Updated {kind} {} (metadata changes)", self.quoted(name));
            self.note(events::UPDATED, message);
        }
        Ok(())
    }

    /// Creates a template with a name that its content gives. If it was created before, and its owner does not refer to it
    /// yet, it is used.
    async fn make(
        &mut self,
        place: &Place,
        api: &Api<DynamicObject>,
        referrer: Option<&Referrer>,
        how: &str,
    ) -> Result<Option<Created>> {
        if let Some(referrer) = referrer {
            referrer.ensure_unchanged().await?;
        }
        let Some(wanted) = place.in_desired(&self.computed.desired).cloned() else { return Ok(None) };
        let uid = self.cluster.uid().unwrap_or_default();
        let content = of_content(&uid, place, &wanted);
        let prefix = place.prefix(&self.cluster.name_any());
        rename(place, &mut self.computed.desired, &from_prefix(&prefix, &mut || content));
        let Some(wanted) = place.in_desired(&self.computed.desired).cloned() else { return Ok(None) };
        let (of_kind, name) = named(&wanted);
        let api_version = text(&wanted, "/apiVersion");
        let found = self.core.externals.get_version((api_version, of_kind), &self.namespace, name).await?;
        let mut name = name.to_owned();
        if let Some(found) = found {
            let is_ours = found.metadata.deletion_timestamp.is_none() && found.labels().contains_key(OWNED);
            if is_ours && self.difference(api, &found, &wanted).await? != Difference::Spec {
                self.patch(api, &found, &wanted).await?;
                return Ok(None);
            }
            name = from_prefix(&prefix, &mut NameSuffixes { uid: &uid });
            rename(place, &mut self.computed.desired, &name);
        }
        let Some(wanted) = place.in_desired(&self.computed.desired).cloned() else { return Ok(None) };
        let created = self.create(api, &wanted).await?;
        let message = format!("Created {of_kind} {}{how}", self.quoted(&name));
        self.note(events::CREATED, message);
        Ok(created.map(|created| Created { api: api.clone(), metadata: created.metadata }))
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
