//! Healing a machine in place: wait, restart Kubernetes, carry the plan out again, reboot, and then ask. The decision is
//! pure.
//!
//! A health check says that a machine is ill; what is done about it stands in `spec.healing` of the control plane, for its
//! own machines and for workers. Every step is a plan like any other: it has a gate, so etcd and the budget of workers are
//! asked before anything stops, and a machine that has recovered meanwhile is left alone. What was begun is recorded in an
//! annotation of the Machine, because a manager may die between two steps and status does not survive a move.

pub(crate) mod contact;
mod decide;
mod ladder;
mod record;
mod replace;

pub(crate) use decide::{Case, Healing, decide};
pub(crate) use ladder::Ladder;
pub(crate) use record::Record;
pub(crate) use replace::{ask, is_to_be_asked};
