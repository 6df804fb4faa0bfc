//! The conditions of a Machine that come from its agent: contact, from the heartbeats in its Lease; ability to work,
//! drift and probes, from its MachineReport.
//!
//! A heartbeat counts from the time at which this process sees it, because the clock of the machine may be wrong or set
//! to deceive. So the contact is unknown for a while after a start, and the condition is kept until then.
//!
//! Runs in the reconcile of a CapstanConfig. Reads: the Leases, the MachineReport. Writes: the conditions
//! `AgentConnected`, `AgentHealthy`, `AgentUpgraded`, `MachineAsPlanned` and `ProbesHealthy` of the Machine.

mod decide;
mod heard;
mod interval;
mod program;
mod status;
pub(crate) mod triggers;

pub(crate) use decide::Contact;
pub(crate) use heard::Heard;
pub(crate) use interval::interval;
pub(crate) use program::program;
pub(crate) use status::{condition, drift, health, probes};
