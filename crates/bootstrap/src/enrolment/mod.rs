//! Enrolment: a machine trades its token for a certificate of its own.
//!
//! The machine writes a request into the status of its report; here it is looked at, its key is recorded as the machine's,
//! the plane is asked for a certificate, and the certificate goes into the report's spec. The token hangs on a Secret, and
//! is worth nothing once that is gone. Whatever is half done in the objects is taken up by the decision, so that nothing is
//! lost between two writes.
//!
//! It runs inside of the reconcile of a CapstanConfig and is woken with it, so it has no triggers. Reads: the MachineReport,
//! what the machine's rights are made of, and the CertificateSigningRequest. Writes: all of these, the condition
//! `AgentEnrolled`, and Events of the CapstanConfig.

mod act;
mod decide;
mod observe;
mod status;
#[cfg(test)]
mod tests;

pub use decide::request::GROUP;

pub(crate) use decide::{Decision, EnrolmentStep, Observed, TOKEN_LIFE, decide, is_enrolled};
pub(crate) use observe::Own;
pub(crate) use status::{condition, news};
