//! Heals a machine in place: wait, restart Kubernetes, apply the plan again, reboot, and then ask. `capstan-planner`
//! decides the next step.
//!
//! The last step is recorded in an annotation of the Machine, because the manager may stop between two steps and status
//! does not survive a move.

mod act;
pub(crate) mod contact;
mod decide;
mod observe;
mod status;

pub(crate) use act::heal;
pub(crate) use observe::ladder;
pub(crate) use status::cause;
