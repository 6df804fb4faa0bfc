//! Heals a machine in place: wait, restart Kubernetes, apply the plan again, reboot, and then ask.
//!
//! A health check marks a machine as unhealthy; `spec.healing` of the control plane has the steps, for its own machines
//! and for workers. Every step is a plan with a gate, so etcd and the budget of workers are checked before anything
//! stops, and a machine that has recovered is left alone. The last step is recorded, because the manager may stop
//! between two steps.

mod decide;
mod ladder;
mod record;
#[cfg(test)]
mod tests;

pub use decide::{Case, Healing, Stage, decide, order, remedy};
pub use ladder::{HealingStep, Ladder, Rung};
pub use record::{Active, Healed, Record, Tokens};
