//! Variables of a ClusterClass: their schemas, defaults, and the validation of what a Cluster sets.

mod builtin;
mod cluster;
mod definitions;
mod schema;
mod unique;

pub use cluster::default_and_validate;
pub use definitions::{Definitions, INLINE, definitions_of};
pub(crate) use schema::nested as nested_schemas;
pub use schema::{Schema, validate_schema};

pub(crate) use builtin::{
    Variables, Workers, for_cluster, for_control_plane, for_machine_deployment, for_machine_pool, merge,
};

#[cfg(test)]
mod tests;
