//! Annotations that messages tell the user to set or to remove.
//!
//! The first two are part of the API; `capstan-controlplane` tests that they are spelled as `capstan-api` spells them.

/// On a Machine: keeps it out of everything that Capstan would do to it.
pub const HOLD: &str = "capstan.dev/hold";

/// On a Machine: it is deleted first when the control plane scales down.
pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";

/// On a Machine: another value has a plan that was given up tried again.
pub const RETRY: &str = "capstan.dev/retry";
