//! The kinds of `controlplane.cluster.x-k8s.io` that Capstan provides.

mod capstancontrolplane;
mod remediation;
mod template;

pub use capstancontrolplane::*;
pub use remediation::*;
pub use template::*;

crate::status_conditions!(CapstanControlPlaneStatus);
