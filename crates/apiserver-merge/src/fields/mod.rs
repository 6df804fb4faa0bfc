//! Which fields: elements of paths, sets of paths, and the `fieldsV1` form in which `metadata.managedFields` keeps
//! them. Nothing in here knows objects or schemas.

mod element;
mod set;
mod v1;

pub use element::Element;
pub use set::FieldSet;
pub use v1::FieldsError;
