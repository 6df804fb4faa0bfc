//! What can be done with objects: one generic path for every resource.
//!
//! [`create`], [`update`], [`patch`] and [`delete`] are loops around one conditional write; [`read`] answers from memory.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod scale;
pub(crate) mod strategic;
pub(crate) mod update;
