//! Between the version that is stored and the one that is asked for.

use std::borrow::Cow;

use serde_json::Value;

use super::Call;
use crate::{
    object,
    registry::{Conversion, Origin, kinds::events},
    status::Result,
    store::Stored,
};

impl Call {
    /// Whether a stored object can be sent as it is.
    pub(crate) fn is_presentable(&self, stored: &Stored) -> bool {
        let current = match self.resource.origin {
            Origin::BuiltIn => true,
            // Written under the CRD as it is now: pruned and defaulted by it.
            Origin::Custom { revision, .. } => stored.revision > revision,
        };
        current && object::api_version(&stored.value) == self.api_version()
    }

    /// A stored object in the version that was asked for.
    pub(crate) async fn present<'a>(&self, stored: &'a Stored) -> Result<Cow<'a, Value>> {
        let shown = self.present_all(&[stored]).await?.pop();
        Ok(shown.unwrap_or(Cow::Borrowed(&stored.value)))
    }

    /// The same where no webhook is needed for it.
    pub(crate) fn present_here<'a>(&self, stored: &'a Stored) -> Cow<'a, Value> {
        match &self.resource.conversion {
            _ if self.is_presentable(stored) => Cow::Borrowed(&stored.value),
            Conversion::Events => Cow::Owned(events::from_core(&stored.value)),
            Conversion::Rename | Conversion::Webhook(_) => Cow::Owned(self.fitted(stored.value.clone())),
        }
    }

    /// Stored objects in the version that was asked for, in the same order. A webhook is asked once for all.
    pub(crate) async fn present_all<'a>(&self, items: &[&'a Stored]) -> Result<Vec<Cow<'a, Value>>> {
        let version = self.api_version();
        let mut shown = Vec::with_capacity(items.len());
        let mut foreign = Vec::new();
        for (index, stored) in items.iter().enumerate() {
            let asks = matches!(self.resource.conversion, Conversion::Webhook(_));
            shown.push(if asks && object::api_version(&stored.value) != version {
                foreign.push(index);
                Cow::Borrowed(&stored.value)
            } else {
                self.present_here(stored)
            });
        }
        if let Conversion::Webhook(converter) = &self.resource.conversion {
            let objects: Vec<&Value> = foreign.iter().map(|index| &items[*index].value).collect();
            let converted = converter.convert(&self.plane.webhooks, &version, &objects).await?;
            for (index, object) in foreign.into_iter().zip(converted) {
                shown[index] = Cow::Owned(self.fitted(object));
            }
        }
        Ok(shown)
    }

    /// An object under the version that was asked for, as its schema wants it.
    fn fitted(&self, mut object: Value) -> Value {
        object["apiVersion"] = self.api_version().into();
        if self.resource.is_custom() {
            self.version.schema.prune(&mut object);
            self.version.schema.default(&mut object);
        }
        object
    }

    /// An object of the version that was asked for, as it is stored.
    pub(crate) async fn to_stored(&self, mut object: Value) -> Result<Value> {
        let resource = &self.resource;
        if resource.conversion == Conversion::Events {
            return Ok(events::to_core(&object));
        }
        if object::api_version(&object) == resource.stored_version {
            return Ok(object);
        }
        if let Conversion::Webhook(converter) = &resource.conversion {
            let version = &resource.stored_version;
            let converted = converter.convert(&self.plane.webhooks, version, &[&object]).await?;
            object = converted.into_iter().next().unwrap_or(object);
        }
        object["apiVersion"] = resource.stored_version.as_str().into();
        resource.stored_schema.prune(&mut object);
        resource.stored_schema.default(&mut object);
        Ok(object)
    }

    /// An object of the version that was asked for, or of another one that is served, in a version that is.
    pub(crate) async fn in_version(&self, object: &Value, version: &str) -> Result<Value> {
        let api_version = self.resource.api_version(version);
        let mut object = object.clone();
        if object::api_version(&object) == api_version {
            return Ok(object);
        }
        if let Conversion::Webhook(converter) = &self.resource.conversion {
            let converted = converter.convert(&self.plane.webhooks, &api_version, &[&object]).await?;
            object = converted.into_iter().next().unwrap_or(object);
        }
        object["apiVersion"] = api_version.into();
        if let Some(version) = self.resource.version(version) {
            version.schema.prune(&mut object);
            version.schema.default(&mut object);
        }
        Ok(object)
    }
}
