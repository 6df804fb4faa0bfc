//! The kind of `agent.capstan.dev`: what the agent on a machine reports.

mod report;

pub use report::*;
