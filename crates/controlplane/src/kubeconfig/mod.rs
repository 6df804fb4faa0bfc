//! The kubeconfig Secret of the contract: created once the endpoint is known, and renewed before its certificate expires.

mod act;
mod decide;

pub(crate) use act::write;
