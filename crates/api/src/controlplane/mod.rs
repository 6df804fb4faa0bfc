//! The kinds of `controlplane.cluster.x-k8s.io` that Capstan provides.

mod capstancontrolplane;
mod template;

pub use capstancontrolplane::*;
pub use template::*;

crate::status_conditions!(CapstanControlPlaneStatus);
