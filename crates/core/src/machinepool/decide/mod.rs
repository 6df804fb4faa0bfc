//! Fields that a MachinePool copies from its providers, the Machines that stand for its machines, its Nodes, and the order of its
//! deletion. Pure.

pub(super) mod defaults;
pub(super) mod delete;
pub(super) mod machines;
pub(super) mod nodes;
pub(super) mod ownership;
pub(super) mod provision;
