//! Whether the agents of machines still contact the management plane, by the heartbeats in their Leases, and whether they can
//! work and have found their machine changed, by their reports.
//!
//! A heartbeat counts from when this process sees it, by its own clock: the time in it is the machine's, which may be wrong or
//! a lie. So nothing is known of a machine for a while after a start, and its condition stays as it is.
//!
//! It runs inside of the reconcile of a CapstanConfig. Reads: the Leases, the MachineReport. Writes: the
//! conditions `AgentConnected`, `AgentHealthy`, `AgentUpgraded`, `MachineAsPlanned` and `ProbesHealthy` of the Machine.

mod decide;
mod heard;
mod program;
mod status;
pub(crate) mod triggers;

pub(crate) use decide::Contact;
pub(crate) use heard::Heard;
pub(crate) use program::program;
pub(crate) use status::{condition, drift, health, probes};
