//! The kinds of `controlplane.cluster.x-k8s.io` that Capstan provides.

mod capstancontrolplane;
mod remediation;
mod template;

pub use capstancontrolplane::*;
pub use remediation::*;
pub use template::*;

/// Annotation of a CapstanControlPlane: a new value replaces the key that signs the plans of the cluster's machines.
pub const ROTATE_PLAN_KEY: &str = "capstan.dev/rotate-plan-key";

crate::status_conditions!(CapstanControlPlaneStatus);
