//! The kinds of `bootstrap.cluster.x-k8s.io` that Capstan provides.
//!
//! A CapstanConfig describes the setup of one machine. The bootstrap data only installs the agent. The rest of the
//! setup reaches the machine as a plan, so that a later change can be made in place.

mod capstanconfig;
mod hostconfig;
mod probe;
mod proxy;

pub use capstanconfig::*;
pub use hostconfig::*;
pub use probe::*;
pub use proxy::*;

crate::status_conditions!(CapstanConfigStatus);

/// Condition of a CapstanConfig: the agent on the machine has its own credential.
pub const AGENT_ENROLLED: &str = "AgentEnrolled";

/// Condition of a Machine: its agent contacts the management plane. Not set before the first heartbeat.
pub const AGENT_CONNECTED: &str = "AgentConnected";

/// Condition of a Machine: its agent can work. Set once the agent has reported a problem.
pub const AGENT_HEALTHY: &str = "AgentHealthy";

/// Condition of a Machine: what its plan has put on it is there, unchanged. Set once the agent has found a change.
pub const MACHINE_AS_PLANNED: &str = "MachineAsPlanned";

/// Condition of a Machine: the health probes of its plan succeed. Set once a probe has failed while no plan was in progress.
pub const PROBES_HEALTHY: &str = "ProbesHealthy";

/// Condition of a Machine: its agent runs the program that its plan names. Set once the agent could not replace its program.
pub const AGENT_UPGRADED: &str = "AgentUpgraded";

/// Reasons of [`AGENT_UPGRADED`] when it is true. When it is false, the reason is a cause of [`crate::wait`].
pub mod upgrade_reasons {
    /// The agent runs the program that its plan names, or the plan names none.
    pub const UPGRADED: &str = "Upgraded";
}

/// Reasons of [`PROBES_HEALTHY`] when it is true or unknown. When it is false, the reason is a cause of [`crate::wait`].
pub mod probe_reasons {
    /// All probes succeed.
    pub const HEALTHY: &str = "Healthy";
    /// The agent is silent: the results that it has reported are old.
    pub const RESULTS_OLD: &str = "ResultsOld";
}

/// Reasons of [`MACHINE_AS_PLANNED`] when it is true. When it is false, the reason is a cause of [`crate::wait`].
pub mod drift_reasons {
    /// The agent has repaired what it found changed.
    pub const REPAIRED: &str = "Repaired";
    /// The agent has found nothing changed since it was started.
    pub const UNCHANGED: &str = "Unchanged";
}

/// Reasons of [`AGENT_HEALTHY`] when it is true. When it is false, the reason is a cause of [`crate::wait`].
pub mod health_reasons {
    /// The agent reports no problem any more.
    pub const HEALTHY: &str = "Healthy";
}

/// Reasons of [`AGENT_CONNECTED`] when it is true. When it is false, the reason is a cause of [`crate::wait`].
pub mod connection_reasons {
    /// The agent contacts the management plane.
    pub const CONNECTED: &str = "Connected";
}

/// Reasons of [`AGENT_ENROLLED`] when it is true. When it is false, the reason is a cause of [`crate::wait`].
pub mod enrolment_reasons {
    /// The agent has a client certificate.
    pub const ENROLLED: &str = "Enrolled";
}
