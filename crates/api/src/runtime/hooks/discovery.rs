//! Discovery: core asks an extension which hooks it serves.

use serde::{Deserialize, Serialize};

use super::{Body, CommonResponse, Hook};
use crate::runtime::ExtensionHandler;

/// The hook that every extension serves, so that the others can be found.
#[derive(Clone, Copy, Debug)]
pub enum Discovery {}

impl Hook for Discovery {
    const NAME: &'static str = "Discovery";
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;
}

/// Asks which hooks are served. There is nothing more to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveryRequest {}

impl Body for DiscoveryRequest {
    const KIND: &'static str = "DiscoveryRequest";
}

/// Says which hooks are served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveryResponse {
    /// How the call went.
    #[serde(flatten)]
    pub common: CommonResponse,

    /// The handlers of the extension, each under a name of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<ExtensionHandler>,
}

impl Body for DiscoveryResponse {
    const KIND: &'static str = "DiscoveryResponse";
}
