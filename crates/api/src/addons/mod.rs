//! The kinds of `addons.cluster.x-k8s.io/v1beta2`: resources that are applied to clusters once they are reachable.

mod clusterresourceset;
mod clusterresourcesetbinding;

pub use clusterresourceset::*;
pub use clusterresourcesetbinding::*;

/// Type that a Secret must have so that a ClusterResourceSet applies it.
pub const RESOURCE_SET_SECRET_TYPE: &str = "addons.cluster.x-k8s.io/resource-set";

/// Finalizer of ClusterResourceSets.
pub const CLUSTER_RESOURCE_SET_FINALIZER: &str = "addons.cluster.x-k8s.io";

crate::status_conditions!(ClusterResourceSetStatus);
