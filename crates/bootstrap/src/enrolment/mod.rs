//! Enrolment: a machine trades its token for a certificate of its own.
//!
//! The machine writes a request into the status of its report; here it is looked at ([`request`]), its key is recorded
//! as the machine's, the plane is asked for a certificate, and the certificate goes into the report's spec. The token
//! hangs on a Secret, and is worth nothing once that is gone. The thinking is in [`decide`]; whatever stands half
//! done in the objects is taken up there, so that nothing is lost between two writes.

mod certificate;
mod decide;
pub(crate) mod objects;
mod pem;
mod request;
#[cfg(test)]
mod tests;

pub use request::GROUP;

pub(crate) use decide::{
    Change, Decision, Observed, SIGNER, Step, TOKEN_LIFE, csr_name, decide, is_enrolled, usages,
};
pub(crate) use request::check;
