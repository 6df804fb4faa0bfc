//! The kinds of `controlplane.cluster.x-k8s.io` that Capstan provides.

mod capstancontrolplane;
mod remediation;
mod template;

pub use capstancontrolplane::*;
pub use remediation::*;
pub use template::*;

/// Annotation of a CapstanControlPlane: a new value replaces the key that signs the plans of the cluster's machines.
pub const ROTATE_PLAN_KEY: &str = "capstan.dev/rotate-plan-key";

/// Reasons of a CapstanControlPlane. Those of its waits are causes of [`crate::wait`].
pub mod reasons {
    crate::condition_reasons! {
        /// The first control plane machine has started the cluster.
        INITIALIZED = "Initialized";
        /// The first control plane machine has not started the cluster yet.
        NOT_INITIALIZED = "NotInitialized" => "Wait, or look at that machine: `capstan why CLUSTER`.";
        /// etcd has quorum, and all its members are healthy.
        ETCD_HEALTHY = "Healthy";
        /// A member of etcd is not healthy, or does not belong to a Machine.
        ETCD_NOT_HEALTHY = "NotHealthy" => "The message names the members. `capstan why machine/NAME` shows why a machine does not run.";
        /// All machines trust the new key for plans.
        PLAN_KEY_REPLACED = "Replaced";
        /// Every machine that can be upgraded runs the agent that the management plane offers.
        AGENTS_UPGRADED = "Upgraded";
    }
}

crate::status_conditions!(CapstanControlPlaneStatus);
