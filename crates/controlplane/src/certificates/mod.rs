//! Certificates and keys of a cluster: CAs, service account keys, join tokens, and the key that signs plans. They are
//! created before the first machine starts and never again, except the workers' token in a cluster that began without
//! one, and the plan key if a user requests another one.

mod act;
mod changed;
mod decide;
mod make;
mod observe;
mod rotation;
mod tokens;

pub(crate) use act::{is_plan_key_switched, keys, recorded, rotate};
pub(crate) use changed::{KeyDigests, changed, digests};
pub(crate) use decide::{Decision, NEEDED, decide};
#[cfg(feature = "bench")]
pub(crate) use make::contents;
#[cfg(test)]
pub(crate) use make::tests_ca;
pub(crate) use make::{MakeError, client};
pub(crate) use observe::Keys;
pub(crate) use rotation::Replacement;
#[cfg(feature = "bench")]
pub(crate) use tokens::Separation;
