//! Types that all messages share.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use super::API_VERSION;

/// Content of a message, without `apiVersion` and `kind`.
pub trait Body {
    /// Kind of the message.
    const KIND: &'static str;
}

/// A request or response as it is sent: with `apiVersion` and `kind`.
///
/// When a message is read, `apiVersion` and `kind` may be missing, because the path identifies the call. They must not
/// be those of another message.
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

/// Fields of every request, except discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonRequest {
    /// Settings from the ExtensionConfig of the extension.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Fields of every response.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonResponse {
    /// Result of the call.
    pub status: ResponseStatus,

    /// Human-readable explanation. It is copied to conditions, so it must not change from call to call.
    pub message: Option<String>,
}

/// Result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseStatus {
    /// The request is done or in progress.
    Success,
    /// The request failed.
    Failure,
}

impl CommonResponse {
    /// A response for a request that is done or in progress.
    pub fn success() -> Self {
        Self { status: ResponseStatus::Success, message: None }
    }

    /// A response for a request that failed, with the reason.
    pub fn failure(message: impl Into<String>) -> Self {
        Self { status: ResponseStatus::Failure, message: Some(message.into()) }
    }
}
