//! The kinds of `bootstrap.cluster.x-k8s.io` that Capstan provides.
//!
//! A CapstanConfig says how one machine should be set up. What a machine starts with installs the agent and
//! nothing more; all the rest reaches it as a plan, so a change here can be carried out in place.

mod capstanconfig;

pub use capstanconfig::*;

crate::status_conditions!(CapstanConfigStatus);

/// Condition of a CapstanConfig: the agent on the machine has a credential of its own.
pub const AGENT_ENROLLED: &str = "AgentEnrolled";

/// Reasons of [`AGENT_ENROLLED`].
pub mod enrolment_reasons {
    /// It has one.
    pub const ENROLLED: &str = "Enrolled";
    /// There is nothing yet that a machine could start with.
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
    /// The machine has not asked for one yet.
    pub const WAITING_FOR_MACHINE: &str = "WaitingForMachine";
    /// It obeys another management plane, and is told to follow to this one.
    pub const WAITING_FOR_MACHINE_TO_FOLLOW: &str = "WaitingForMachineToFollow";
    /// It has asked, and the management plane has not answered yet.
    pub const WAITING_FOR_CERTIFICATE: &str = "WaitingForCertificate";
    /// It has asked for what it may not have.
    pub const REQUEST_REFUSED: &str = "RequestRefused";
    /// It has not asked for as long as its token lived.
    pub const TOKEN_EXPIRED: &str = "TokenExpired";
    /// Something has the name that an object of this machine must have.
    pub const OBJECT_IN_THE_WAY: &str = "ObjectInTheWay";
}
