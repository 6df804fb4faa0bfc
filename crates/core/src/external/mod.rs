//! Access to the objects of providers ([`access`]), the fields of the contract, and conditions that are copied from
//! them ([`mirror`]).

mod access;
mod mirror;

use capstan_api::conditions::{Conditioned as _, External, find};
use capstan_api::meta::ApiEndpoint;
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

pub(crate) use access::{claim, delete, read};
pub(crate) use mirror::{Mirrored, infrastructure_ready};

/// What was found where a reference points to.
#[derive(Clone, Debug, Default)]
pub(crate) enum Reading {
    /// There is no reference.
    #[default]
    Unreferenced,
    /// The object does not exist.
    Missing,
    /// The object cannot be read; the log says why.
    Unreadable,
    /// The object exists.
    Found(Box<DynamicObject>),
}

impl Reading {
    pub(crate) fn found(&self) -> Option<&DynamicObject> {
        match self {
            Self::Found(object) => Some(object),
            _ => None,
        }
    }
}

/// A field of an object, by JSON pointer; none if it is not there or not what it should be.
pub(crate) fn field<T: DeserializeOwned>(object: &DynamicObject, pointer: &str) -> Option<T> {
    T::deserialize(object.data.pointer(pointer)?).ok()
}

/// A flag of the contract; false if it is not set.
pub(crate) fn flag(object: &DynamicObject, pointer: &str) -> bool {
    field(object, pointer).unwrap_or_default()
}

/// `spec.controlPlaneEndpoint`, if it is complete enough to be stored.
pub(crate) fn endpoint(object: &DynamicObject) -> Option<ApiEndpoint> {
    field::<ApiEndpoint>(object, "/spec/controlPlaneEndpoint").filter(ApiEndpoint::is_valid)
}

pub(crate) fn is_deleting(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// An object together with its kind, as [`External`] wants it.
pub(crate) fn conditions_of(object: &DynamicObject, now: Timestamp) -> Result<External, String> {
    let value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    External::read(&value, now).map_err(|error| error.to_string())
}

/// Whether the object reports a condition of this type.
pub(crate) fn reports(object: &External, type_: &str) -> bool {
    find(object.conditions(), type_).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(data: Value) -> DynamicObject {
        serde_json::from_value(data).expect("an object")
    }

    #[test]
    fn an_endpoint_needs_host_and_port() {
        let with = |endpoint: Value| {
            object(json!({"apiVersion": "a/v1", "kind": "Host", "metadata": {},
            "spec": {"controlPlaneEndpoint": endpoint}}))
        };
        assert_eq!(endpoint(&with(json!({"host": "h"}))), None);
        assert_eq!(endpoint(&with(json!({"host": "", "port": 0}))), None);
        assert!(endpoint(&with(json!({"host": "h", "port": 6443}))).is_some());
    }
}
