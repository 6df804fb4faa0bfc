//! What a Machine takes over from its providers and its Node, how far its update is, and in which order it is deleted.
//! Pure.

pub(super) mod delete;
pub(super) mod node;
pub(super) mod ownership;
pub(super) mod provision;
pub(super) mod update;
