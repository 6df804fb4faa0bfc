//! Enrolment: a machine exchanges its enrolment token for its own credential.
//!
//! The machine writes a public key into the status of its report. The controller records the key, and writes a token of
//! the machine's ServiceAccount, sealed to that key, into the spec of the report: other readers of the report cannot
//! use it. The enrolment token belongs to a separate ServiceAccount, and ends when that is deleted. Each decision is
//! made from the objects alone, so an interrupted enrolment continues.
//!
//! A machine whose credential cannot be used (it has expired, its ServiceAccount was deleted, or it is for another
//! plane) gets a new enrolment token, and enrols with the recorded key.
//!
//! Runs in the reconcile of a CapstanConfig, so it has no triggers. Reads: the MachineReport, and the objects that
//! grant the machine its rights. Writes: the same objects, the condition `AgentEnrolled`, and Events of the
//! CapstanConfig.

mod act;
mod decide;
mod observe;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use decide::{
    Decision, EnrolmentStep, Observed, TOKEN_LIFE, decide, is_enrolled, must_enrol_again,
};
pub(crate) use observe::Own;
pub(crate) use status::{condition, news};
