//! The effect of a write on an object: JSON patches, JSON merge patches, and server-side apply, with the ownership of
//! fields that every write updates. It works on plain JSON values; this crate does no I/O, reads no clock, and knows
//! nothing about HTTP, storage or clients.

mod apply;
mod configuration;
mod conflict;
mod fields;
mod gotext;
mod last_applied;
mod managed;
mod meta;
mod patch;
mod scale;
mod shape;
mod times;
mod update;
mod walk;
mod write;

pub use apply::{Applied, ApplyError, apply, manager_of_user_agent};
pub use configuration::{ConfigurationError, merge_configuration};
pub use conflict::{Conflict, Conflicts};
pub use fields::{Element, FieldSet, FieldsError};
pub use managed::{ManagedFieldsError, Manager, Operation};
pub use patch::{PatchError, json_patch, merge_patch};
pub use scale::track_scale;
pub use shape::Shape;
pub use times::keep_unchanged_times;
pub use update::track_update;
pub use write::Write;

impl Shape {
    /// The fields of an object of this shape.
    pub fn field_set(&self, object: &serde_json::Value) -> FieldSet {
        walk::to_set::field_set(&self.root, object)
    }
}
