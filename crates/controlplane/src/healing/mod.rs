//! Healing a machine in place: wait, restart Kubernetes, carry the plan out again, reboot, and then ask. The next step is
//! decided by `capstan-planner`.
//!
//! What was begun is recorded in an annotation of the Machine, because a manager may die between two steps and status does
//! not survive a move.

mod act;
pub(crate) mod contact;
mod decide;
mod observe;
mod status;

pub(crate) use act::heal;
pub(crate) use observe::ladder;
pub(crate) use status::cause;
