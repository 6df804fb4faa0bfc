//! Webhooks as CRDs and configurations describe them: addresses, criteria, and what is wrong with a description. The client that
//! calls them is not here.

pub mod configuration;
pub mod conversion;
mod target;
mod url;

pub use target::{Place, Target};
