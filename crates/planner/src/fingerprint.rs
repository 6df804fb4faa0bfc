//! Digests of what a plan was made from.
//!
//! How they are computed is the distribution's (`capstan-distro`); here they are only compared.

use capstan_plan::Digest;

/// Digests of what a plan was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// What pods must be moved away for before Kubernetes is started again.
    pub drain: Digest,
    /// What Kubernetes on the machine must be started again for.
    pub restart: Digest,
    /// All of it: a plan whose whole differs is written anew.
    pub whole: Digest,
}
