//! The messages of `hooks.runtime.cluster.x-k8s.io/v1alpha1`: requests of core to a runtime extension, and its
//! responses.
//!
//! These messages are not stored as objects. A call is one POST of a [`Message`] with the request to [`path`]; the
//! response is a [`Message`] too.

mod discovery;
mod inplace;
mod message;

pub use discovery::*;
pub use inplace::*;
pub use message::*;

/// API group of the hooks.
pub const GROUP: &str = "hooks.runtime.cluster.x-k8s.io";

/// Version of the hooks.
pub const VERSION: &str = "v1alpha1";

/// API group and version of the messages.
pub const API_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// Name of the ExtensionConfig of Capstan's own extension.
pub const EXTENSION: &str = "capstan";

/// Audience of the bearer tokens with which core authenticates itself to Capstan's own extension.
pub const AUDIENCE: &str = "hooks.capstan.dev";

/// Default timeout of a handler, in seconds.
pub const DEFAULT_TIMEOUT_SECONDS: i32 = 10;

/// Maximum timeout of a handler, in seconds.
pub const LONGEST_TIMEOUT_SECONDS: i32 = 30;

/// Maximum size of a message, in bytes. Both sides reject larger messages.
pub const MOST_BYTES: usize = 20 << 20;

/// The hooks of this version. An extension that names another hook was built for another version.
pub const NAMES: [&str; 17] = [
    "Discovery",
    "BeforeClusterCreate",
    "AfterControlPlaneInitialized",
    "BeforeClusterUpgrade",
    "BeforeControlPlaneUpgrade",
    "AfterControlPlaneUpgrade",
    "BeforeWorkersUpgrade",
    "AfterWorkersUpgrade",
    "AfterClusterUpgrade",
    "BeforeClusterDelete",
    "GeneratePatches",
    "ValidateTopology",
    "DiscoverVariables",
    "GenerateUpgradePlan",
    "CanUpdateMachine",
    "CanUpdateMachineSet",
    "UpdateMachine",
];

/// A hook: its name and the two messages of a call.
pub trait Hook {
    /// Name of the hook, as in handlers and annotations.
    const NAME: &'static str;
    /// The request.
    type Request: Body;
    /// The response.
    type Response: Body;
}

/// Path at which an extension serves a hook. The path of every hook except discovery ends with the name of the handler,
/// as the extension knows it.
pub fn path(hook: &str, handler: Option<&str>) -> String {
    let hook = hook.to_lowercase();
    match handler {
        Some(handler) => format!("/{API_VERSION}/{hook}/{}", handler.to_lowercase()),
        None => format!("/{API_VERSION}/{hook}"),
    }
}
