//! Annotations that messages tell the user to set or to remove.
//!
//! All but the last are part of the API; `capstan-controlplane` tests that they are spelled as `capstan-api` spells them.

/// On a Machine: keeps it out of everything that Capstan would do to it.
pub const HOLD: &str = "capstan.dev/hold";

/// On a Machine: it is deleted first when the control plane scales down.
pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";

/// On a Machine, or on what it belongs to: whether the machine may be replaced.
pub const REPLACE_POLICY: &str = "capstan.dev/replace-policy";

/// On a Machine: another value has a plan that was given up tried again.
pub const RETRY: &str = "capstan.dev/retry";
