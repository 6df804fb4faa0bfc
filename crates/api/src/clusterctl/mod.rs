//! The kinds of `clusterctl.cluster.x-k8s.io/v1alpha3`: installed providers, and the contract versions of provider
//! releases.

mod metadata;
mod provider;

pub use metadata::*;
pub use provider::*;
