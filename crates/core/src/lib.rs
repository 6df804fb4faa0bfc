//! Core: the controllers of `cluster.x-k8s.io`.
//!
//! Each kind is a folder with the same files, absent only when they would be empty:
//!
//! - `mod`: what the controller reads, what it alone writes, its phases in order, and the reconciler
//! - `triggers`: which events wake it, through the shared cache
//! - `observe`: cache and workload cluster to a plain struct; reads only
//! - `decide`: plain structs to a decision; no I/O, no clock; most of the tests
//! - `act`: a decision to few idempotent writes; a live read only right before a create or a delete
//! - `status`: one status and set of conditions from what was seen
//!
//! What must not: knowledge of a certain provider. Providers are met through the contract only, as
//! [`capstan_api::meta::ContractVersionedObjectReference`] and untyped objects.

pub mod cluster;
pub mod clusterclass;
pub mod clusterresourceset;
pub mod clusterresourcesetbinding;
mod context;
pub mod extensionconfig;
mod external;
pub mod machine;
pub mod machinedeployment;
pub mod machinehealthcheck;
pub mod machinepool;
pub mod machineset;
pub mod names;
mod node_sync;
mod replicas;
pub mod runtime;
mod slow_deletion;
mod step;
pub mod topology;
pub mod topologyworkers;
pub mod versions;

pub use context::{Clock, Core, controllers};
pub use node_sync::{KeyPattern, NodeSync};
