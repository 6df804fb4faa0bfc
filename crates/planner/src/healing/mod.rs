//! Healing a machine in place: wait, restart Kubernetes, carry the plan out again, reboot, and then ask.
//!
//! A health check says that a machine is ill; what is done about it stands in `spec.healing` of the control plane, for its
//! own machines and for workers. Every step is a plan like any other: it has a gate, so etcd and the budget of workers are
//! asked before anything stops, and a machine that has recovered meanwhile is left alone. What was begun is recorded,
//! because a manager may die between two steps.

mod decide;
mod ladder;
mod record;
#[cfg(test)]
mod tests;

pub use decide::{Case, Healing, Stage, decide, order, remedy};
pub use ladder::{HealingStep, Ladder, Rung};
pub use record::{Active, Healed, Record, Tokens};
