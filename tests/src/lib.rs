//! Shared code of the black-box suites under `suites/`: objects to create and functions to inspect them.
//!
//! The suites use Capstan and its peers only from outside, through an API server and the command line. They may use the
//! types of `capstan-api` as any client; this crate does not use a controller's code.

mod caller;
pub mod conformance;
mod declared_writers;
mod embedded;
pub mod fixtures;
mod in_memory;
mod installed_access;
mod objects;
mod program;
mod quick_start;
mod refusal;
mod resource;
mod running;
mod simulated;
mod upstream_webhooks;
mod yard;

pub use caller::{Answer, Caller, Credential, Place};
pub use declared_writers::declared_writers;
pub use embedded::Embedded;
pub use in_memory::InMemoryCluster;
pub use installed_access::{installed_access, let_in, right_of_clusters};
pub use objects::{condition, namespaced, not_true};
pub use program::{agent_binary, build as capstan_binary, capstan, capstan_output, clusterctl, kubectl};
pub use quick_start::{Surroundings, follow};
pub use refusal::is_refused;
pub use resource::Resource;
pub use running::Running;
pub use simulated::{MOVED_KINDS, simulated_hosts};
pub use upstream_webhooks::{admission, converted_by};
pub use yard::{Cluster, K3S, Kept, Yard, is_clean, settings};
