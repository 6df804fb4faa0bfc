//! Core: the controllers of `cluster.x-k8s.io`.
//!
//! What lives here: who owns whom, which hand-off comes after which, and what is told to users in conditions. Each
//! controller is a folder: its `mod` wires observe → decide → act together, the files beside it are the steps.
//! Whatever can be decided from data alone is a pure function with a table of cases.
//!
//! What must not: knowledge of a certain provider. Providers are met through the contract only, as
//! [`capstan_api::meta::ContractVersionedObjectReference`] and untyped objects.

pub mod cluster;
mod context;
pub mod extensionconfig;
mod external;
pub mod machine;
pub mod machinedeployment;
pub mod machinehealthcheck;
pub mod machineset;
pub mod names;
mod node_sync;
pub mod runtime;
mod step;
pub mod versions;

pub use context::{Clock, Core, controllers};
pub use node_sync::{KeyPattern, NodeSync};
