//! Conversion between the stored and the requested version.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use super::Call;
use crate::{
    object,
    registry::{
        Conversion, Origin,
        kinds::{autoscaler, events},
    },
    status::Result,
    store::Stored,
    webhook::conversion::convert,
};

/// An object in the requested version: as it is stored, or converted.
#[derive(Debug)]
pub(crate) enum Representation {
    Stored(Arc<Stored>),
    Made(Value),
}

impl Representation {
    pub(crate) fn value(&self) -> Cow<'_, Value> {
        match self {
            Self::Stored(stored) => stored.value.once(),
            Self::Made(value) => Cow::Borrowed(value),
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Stored(stored) => stored.value.once().into_owned(),
            Self::Made(value) => value,
        }
    }

    /// The encoded object. A stored object is not encoded again.
    pub(crate) fn json(&self) -> Bytes {
        match self {
            Self::Stored(stored) => stored.json.clone(),
            Self::Made(value) => value.to_string().into(),
        }
    }
}

impl Call {
    /// Whether a stored object can be sent without conversion.
    fn is_presentable(&self, stored: &Stored) -> bool {
        let current = match self.resource.origin {
            Origin::BuiltIn => true,
            // Written under the CRD as it is now: pruned and defaulted by it.
            Origin::Custom { revision, .. } => stored.revision > revision,
        };
        current && stored.api_version() == self.api_version()
    }

    /// A stored object in the requested version.
    pub(crate) async fn present(&self, stored: &Arc<Stored>) -> Result<Representation> {
        let shown = self.present_all(&[stored]).await?.pop();
        Ok(shown.unwrap_or_else(|| Representation::Stored(Arc::clone(stored))))
    }

    /// Like `present`, for resources without a conversion webhook.
    pub(crate) fn present_without_webhook(&self, stored: &Arc<Stored>) -> Representation {
        let value = || stored.value.once();
        match &self.resource.conversion {
            _ if self.is_presentable(stored) => Representation::Stored(Arc::clone(stored)),
            Conversion::Events => Representation::Made(events::from_core(&value())),
            Conversion::Autoscalers => {
                Representation::Made(autoscaler::convert(value().into_owned(), &self.api_version()))
            }
            Conversion::Rename | Conversion::Webhook(_) => {
                Representation::Made(self.fitted(value().into_owned()))
            }
        }
    }

    /// Stored objects in the requested version, in the same order. A webhook is called once for all of them.
    pub(crate) async fn present_all(&self, items: &[&Arc<Stored>]) -> Result<Vec<Representation>> {
        let version = self.api_version();
        let mut shown = Vec::with_capacity(items.len());
        let mut foreign = Vec::new();
        for (index, stored) in items.iter().enumerate() {
            let asks = matches!(self.resource.conversion, Conversion::Webhook(_));
            shown.push(if asks && stored.api_version() != version {
                foreign.push((index, stored.value.once()));
                // Replaced below.
                Representation::Stored(Arc::clone(stored))
            } else {
                self.present_without_webhook(stored)
            });
        }
        if let Conversion::Webhook(converter) = &self.resource.conversion {
            let objects: Vec<&Value> = foreign.iter().map(|(_, value)| value.as_ref()).collect();
            let converted = convert(converter, &self.plane.webhooks, &version, &objects).await?;
            for ((index, _), object) in foreign.into_iter().zip(converted) {
                shown[index] = Representation::Made(self.fitted(object));
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
        if resource.conversion == Conversion::Autoscalers {
            return Ok(autoscaler::convert(object, &resource.stored_version));
        }
        if object::api_version(&object) == resource.stored_version {
            return Ok(object);
        }
        if let Conversion::Webhook(converter) = &resource.conversion {
            let version = &resource.stored_version;
            let converted = convert(converter, &self.plane.webhooks, version, &[&object]).await?;
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
        if self.resource.conversion == Conversion::Autoscalers {
            return Ok(autoscaler::convert(object, &api_version));
        }
        if let Conversion::Webhook(converter) = &self.resource.conversion {
            let converted = convert(converter, &self.plane.webhooks, &api_version, &[&object]).await?;
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
