//! Discovery: core requests the list of hooks that an extension serves.

use serde::{Deserialize, Serialize};

use super::{Body, CommonResponse, Hook};
use crate::runtime::ExtensionHandler;

/// The hook with which core discovers the other hooks. Every extension serves it.
#[derive(Clone, Copy, Debug)]
pub enum Discovery {}

impl Hook for Discovery {
    const NAME: &'static str = "Discovery";
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;
}

/// Request for the list of hooks. It has no fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveryRequest {}

impl Body for DiscoveryRequest {
    const KIND: &'static str = "DiscoveryRequest";
}

/// The hooks that an extension serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveryResponse {
    /// Result of the call.
    #[serde(flatten)]
    pub common: CommonResponse,

    /// Handlers of the extension, each with a unique name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<ExtensionHandler>,
}

impl Body for DiscoveryResponse {
    const KIND: &'static str = "DiscoveryResponse";
}
