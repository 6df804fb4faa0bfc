//! Plans: which machine begins the cluster, which plan each machine gets, and when it may restart Kubernetes.

mod agents;
mod cancel;
mod decide;
mod earlier;
mod election;
mod gate;
mod outcome;
mod record;
mod support;
mod upgrades;

pub use agents::agent_program;
pub use cancel::cancel;
pub(crate) use decide::runs_ahead;
pub use decide::{LIFE, Verdict, others_serve, restart_after, role, verdict};
pub use earlier::{Earlier, Effect, Ending, earlier, effect};
pub use election::{Elected, Election, elect, has_begun};
pub use gate::{Gate, View, drain_timeout, gate, is_drained_first, is_to_be_uncordoned, is_to_come_back};
pub use outcome::Outcome;
#[cfg(test)]
pub(crate) use record::MOST_ATTEMPTS;
pub use record::{RECORD_ANNOTATION, Record, Setup, is_first, runs};
pub use support::{Unsupported, supports, without};
pub use upgrades::{AgentUpgrades, agent_upgrades};

/// The gate in every plan before the restart of Kubernetes.
pub const RESTART_GATE: &str = "drained";
