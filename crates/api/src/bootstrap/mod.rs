//! The kinds of `bootstrap.cluster.x-k8s.io` that Capstan provides.
//!
//! A CapstanConfig says how one machine should be set up. What a machine starts with installs the agent and
//! nothing more; all the rest reaches it as a plan, so a change here can be carried out in place.

mod capstanconfig;

pub use capstanconfig::*;

crate::status_conditions!(CapstanConfigStatus);

/// Condition of a CapstanConfig: the agent on the machine has a credential of its own.
pub const AGENT_ENROLLED: &str = "AgentEnrolled";

/// Reasons of [`AGENT_ENROLLED`] when it is true. What is waited for has a cause of [`crate::wait`].
pub mod enrolment_reasons {
    /// It has one.
    pub const ENROLLED: &str = "Enrolled";
}
