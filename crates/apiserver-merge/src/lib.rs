//! What a write makes of an object: JSON patches, JSON merge patches, and server-side apply with the account of who
//! owns which field that every write keeps. On plain JSON values; nothing in here does I/O, reads a clock, or knows
//! HTTP, storage or a client.

mod apply;
mod conflict;
mod fields;
mod gotext;
mod last_applied;
mod managed;
mod meta;
mod patch;
mod shape;
mod times;
mod update;
mod walk;
mod write;

pub use apply::{Applied, ApplyError, apply, manager_of_user_agent};
pub use conflict::{Conflict, Conflicts};
pub use fields::{Element, FieldSet, FieldsError};
pub use managed::{ManagedFieldsError, Manager, Operation};
pub use patch::{PatchError, json_patch, merge_patch};
pub use shape::Shape;
pub use times::settle_times;
pub use update::track_update;
pub use write::Write;

impl Shape {
    /// The fields an object of this shape has.
    pub fn field_set(&self, object: &serde_json::Value) -> FieldSet {
        walk::to_set::field_set(&self.root, object)
    }
}
