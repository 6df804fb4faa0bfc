//! The kubeconfig Secret of the contract: made once the endpoint is known, and anew before its certificate expires.

mod act;
mod decide;

pub(crate) use act::write;
