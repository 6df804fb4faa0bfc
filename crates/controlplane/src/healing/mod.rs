//! Healing a machine in place: wait, restart Kubernetes, carry the plan out again, reboot, and then ask. The decision is
//! pure.
//!
//! A health check says that a machine is ill; what is done about it stands in `spec.healing` of the control plane, for its
//! own machines and for workers. Every step is a plan like any other: it has a gate, so etcd and the budget of workers are
//! asked before anything stops, and a machine that has recovered meanwhile is left alone. What was begun is recorded in an
//! annotation of the Machine, because a manager may die between two steps and status does not survive a move.

pub(crate) mod contact;
mod replace;

pub(crate) use replace::{ask, is_to_be_asked};

use capstan_api::keep::healing as reasons;
use capstan_planner::healing::Stage;

/// The reason of the condition `HealedInPlace`.
pub(crate) const fn reason(stage: Stage) -> &'static str {
    match stage {
        Stage::Healthy => reasons::HEALTHY,
        Stage::Waiting => reasons::WAITING,
        Stage::Restarting => reasons::RESTARTING,
        Stage::Reapplying => reasons::REAPPLYING,
        Stage::Rebooting => reasons::REBOOTING,
        Stage::Silent => reasons::SILENT,
        Stage::Exhausted => reasons::EXHAUSTED,
    }
}
