//! What all messages have in common.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use super::API_VERSION;

/// What a message says, without the `apiVersion` and `kind` that it travels with.
pub trait Body {
    /// Kind of the message.
    const KIND: &'static str;
}

/// A request or response as it goes over the wire: with its `apiVersion` and `kind`.
///
/// When read, either may be missing, because the path of a call says as much; neither may be another's.
#[derive(Clone, Debug, PartialEq)]
pub struct Message<B>(pub B);

impl<B: Body + Serialize> Serialize for Message<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Typed<'a, B> {
            api_version: &'static str,
            kind: &'static str,
            #[serde(flatten)]
            body: &'a B,
        }
        Typed { api_version: API_VERSION, kind: B::KIND, body: &self.0 }.serialize(serializer)
    }
}

impl<'de, B: Body + Deserialize<'de>> Deserialize<'de> for Message<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let message = Value::deserialize(deserializer)?;
        for (field, expected) in [("apiVersion", API_VERSION), ("kind", B::KIND)] {
            match message.get(field) {
                None | Some(Value::Null) => {}
                Some(Value::String(found)) if found.is_empty() || found == expected => {}
                Some(found) => {
                    return Err(D::Error::custom(format_args!("{field} is {found}, expected {expected:?}")));
                }
            }
        }
        B::deserialize(message).map(Self).map_err(D::Error::custom)
    }
}

/// What every request carries, except the one for discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonRequest {
    /// Settings from the ExtensionConfig.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// What every response carries.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonResponse {
    /// How the call went.
    pub status: ResponseStatus,

    /// Why, for people. Ends up in conditions, so it must not change from call to call.
    pub message: Option<String>,
}

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseStatus {
    /// The extension did what it was asked, or is at it.
    Success,
    /// It did not.
    Failure,
}

impl CommonResponse {
    /// The extension did what it was asked, or is at it.
    pub fn success() -> Self {
        Self { status: ResponseStatus::Success, message: None }
    }

    /// The extension did not do what it was asked, and why.
    pub fn failure(message: impl Into<String>) -> Self {
        Self { status: ResponseStatus::Failure, message: Some(message.into()) }
    }
}
