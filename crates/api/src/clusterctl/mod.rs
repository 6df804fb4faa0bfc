//! The kinds of `clusterctl.cluster.x-k8s.io/v1alpha3`: which providers are installed, and which versions of
//! the contract the releases of a provider speak.

mod metadata;
mod provider;

pub use metadata::*;
pub use provider::*;
