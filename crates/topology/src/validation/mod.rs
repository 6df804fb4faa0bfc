//! What is wrong with a ClusterClass, or with the topology of a Cluster: errors with the paths of fields.
//!
//! These are the checks of upstream's webhooks, apart from those that the schema of the CRD makes.

mod class;
mod class_in_use;
mod class_patches;
mod class_variables;
mod cluster;
mod compatibility;
mod version_change;
pub mod words;

pub use class::{ClassChange, class, taints};
pub use cluster::{ClusterChange, cluster};
pub use compatibility::{classes as compatible_classes, objects as compatible_objects, same_object};
pub use version_change::{Facts, Rollout};

#[cfg(test)]
mod tests;
