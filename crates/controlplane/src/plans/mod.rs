//! Plans: every machine of the cluster, control plane and workers, gets its plan, and its gate is opened when
//! Kubernetes may be restarted.
//!
//! A plan is a function of objects and a renderer. It is written again when its inputs have changed and the machine may
//! have it: see [`capstan_planner::plans::verdict`]. The result comes back in the MachineReport.

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
    decide::{Begun, Decision, Written, decide, merged, prepare},
    inputs::Materials,
    software::Shelf,
    write::seal,
};
