//! Fields that a Machine copies from its providers and its Node, the state of its update, and the order of its
//! deletion. Pure.

pub(super) mod delete;
pub(super) mod node;
pub(super) mod ownership;
pub(super) mod provision;
pub(super) mod update;
