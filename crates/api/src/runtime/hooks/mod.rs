//! The messages of `hooks.runtime.cluster.x-k8s.io/v1alpha1`: what core asks a runtime extension, and what
//! the extension answers.
//!
//! These are no objects: nobody stores them. A call is one POST of a [`Message`] with a request to
//! [`path`], answered by a [`Message`] with the response.

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

/// Group and version, as messages carry them.
pub const API_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// How many seconds a handler is given that asks for no other time.
pub const DEFAULT_TIMEOUT_SECONDS: i32 = 10;

/// How many seconds a handler may ask for at most.
pub const LONGEST_TIMEOUT_SECONDS: i32 = 30;

/// How long a message may be: neither side reads more.
pub const MOST_BYTES: usize = 20 << 20;

/// The hooks of this version. An extension that names another one was made for another version.
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

/// A hook: its name, and the two messages of a call.
pub trait Hook {
    /// Name of the hook, as handlers and annotations give it.
    const NAME: &'static str;
    /// What the extension is asked.
    type Request: Body;
    /// What it answers.
    type Response: Body;
}

/// Path at which an extension serves a hook. Every hook but discovery has a handler, under the name by
/// which the extension itself knows it.
pub fn path(hook: &str, handler: Option<&str>) -> String {
    let hook = hook.to_lowercase();
    match handler {
        Some(handler) => format!("/{API_VERSION}/{hook}/{}", handler.to_lowercase()),
        None => format!("/{API_VERSION}/{hook}"),
    }
}
