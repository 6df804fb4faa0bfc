//! Values as text, where more than one crate writes or reads them: versions, label values, names of Machines, error
//! chains, Prometheus exposition, responses of health checks. Pure.

pub mod api_version;
mod error;
pub mod exposition;
pub mod health;
mod label_value;
mod machine_name;
mod version;

pub use error::chain;
pub use label_value::{LONGEST_LABEL_VALUE, label_value};
pub use machine_name::{BadTemplate, machine_name};
pub use version::Version;
