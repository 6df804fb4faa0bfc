//! The kinds of `addons.cluster.x-k8s.io/v1beta2`: what is applied to clusters once they can be reached.

mod clusterresourceset;
mod clusterresourcesetbinding;

pub use clusterresourceset::*;
pub use clusterresourcesetbinding::*;

/// The type a Secret must have before a ClusterResourceSet applies what is in it.
pub const RESOURCE_SET_SECRET_TYPE: &str = "addons.cluster.x-k8s.io/resource-set";

/// The finalizer on ClusterResourceSets.
pub const CLUSTER_RESOURCE_SET_FINALIZER: &str = "addons.cluster.x-k8s.io";

crate::status_conditions!(ClusterResourceSetStatus);
