//! Digests of what a plan was made from.
//!
//! How they are computed is the distribution's (`capstan-distro`); here they are only compared.

use capstan_plan::Digest;

/// Digests of the inputs of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Inputs whose change requires a drain before the restart.
    pub drain: Digest,
    /// Inputs whose change requires a restart of Kubernetes on the machine.
    pub restart: Digest,
    /// All inputs: if this digest differs, another plan is written.
    pub whole: Digest,
}
