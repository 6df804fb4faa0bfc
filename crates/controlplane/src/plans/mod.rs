//! Plans: every machine of the cluster, control plane and workers alike, gets the plan it should have, and its gate is
//! opened when Kubernetes may be started again.
//!
//! A plan is a function of objects and a renderer; it is written again when its inputs have changed, and only when the
//! machine may have it: see [`capstan_planner::plans::verdict`]. What a machine makes of it comes back in its
//! MachineReport.

mod act;
mod decide;
mod inputs;
mod observe;
mod signature;
mod software;
mod status;
mod write;

pub(crate) use act::{plan, sign_again};
pub(crate) use inputs::restart_after;
pub(crate) use observe::plan_facts;
pub use software::Spare;

#[cfg(feature = "bench")]
pub(crate) use {
    decide::{Begun, Decision, Written, decide, prepare},
    inputs::Materials,
    software::Shelf,
    write::seal,
};
