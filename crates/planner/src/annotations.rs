//! Annotations that messages ask the user to set or to remove.
//!
//! All but the last two are part of the API; `capstan-controlplane` tests that they are spelled as `capstan-api` spells them.

/// Annotation of a Machine: excludes it from all changes by Capstan.
pub const HOLD: &str = "capstan.dev/hold";

/// Annotation of a Machine: it is deleted first when the control plane scales down.
pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";

/// Annotation of a Machine or its owners: whether the machine may be replaced.
pub const REPLACE_POLICY: &str = "capstan.dev/replace-policy";

/// Annotation of a Machine: its maintenance windows, separated by semicolons, instead of those of its cluster.
pub const MAINTENANCE_WINDOWS: &str = "capstan.dev/maintenance-windows";

/// Annotation of a Machine: the plan with this revision, and earlier ones, are cancelled.
pub const CANCEL: &str = "capstan.dev/cancel";

/// Annotation of a Machine: a new value retries a failed plan.
pub const RETRY: &str = "capstan.dev/retry";
