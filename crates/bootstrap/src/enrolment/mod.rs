//! Enrolment: a machine trades its enrolment token for a credential of its own.
//!
//! The machine writes a public key into the status of its report. The key is recorded as the machine's, and a token of the
//! machine's ServiceAccount goes into the spec of the report, sealed to that key: others that read the report cannot use it. The
//! enrolment token belongs to a ServiceAccount of its own, and ends with that. Whatever is half done in the objects is taken up by
//! the decision, so that nothing is lost between two writes.
//!
//! A machine whose credential is of no use any more (it expired, its ServiceAccount was deleted, or it is for another plane) is told
//! to enrol again, with the key that is recorded.
//!
//! It runs inside of the reconcile of a CapstanConfig and is woken with it, so it has no triggers. Reads: the MachineReport, and
//! what the machine's rights are made of. Writes: all of these, the condition `AgentEnrolled`, and Events of the CapstanConfig.

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
