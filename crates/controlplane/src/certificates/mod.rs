//! What a cluster is made from and kept by: CAs, service account keys, the tokens to join with, and the key that plans
//! are signed with. Made before the first machine starts, and never again, except for the token of workers in a cluster
//! that began without one, and for the key of plans when a user asks for another one.

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
