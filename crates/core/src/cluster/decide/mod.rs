//! What to take over from the providers of a Cluster, and in which order to delete what belongs to it. Pure.

pub(super) mod delete;
pub(super) mod handoff;
