//! Values as text, where more than one crate writes or reads them: versions, error chains, Prometheus exposition, responses
//! of health checks. Pure.

pub mod api_version;
mod error;
pub mod exposition;
pub mod health;
mod version;

pub use error::chain;
pub use version::Version;
