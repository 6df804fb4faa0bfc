//! Runtime extensions: the kind that registers them, and the messages of the hooks they serve.

mod extension_config;
pub mod hooks;

pub use extension_config::*;

/// Annotation keys of runtime extensions.
pub mod annotations {
    /// On an ExtensionConfig: fill in `caBundle` from this Secret, as `namespace/name`.
    pub const INJECT_CA_FROM_SECRET: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";
    /// Names of hooks that are still to be called for an object, joined by commas.
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
    /// On a Cluster: the hook before its deletion has been called and has let it go.
    pub const OK_TO_DELETE: &str = "runtime.cluster.x-k8s.io/ok-to-delete";
}

crate::status_conditions!(ExtensionConfigStatus);
