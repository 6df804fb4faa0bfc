//! Fields that a Cluster copies from its providers, and the order in which its objects are deleted. Pure.

pub(super) mod delete;
pub(super) mod handoff;
