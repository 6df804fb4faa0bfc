//! Paths of fields: elements, sets of paths, and their `fieldsV1` form in `metadata.managedFields`. This module knows
//! neither objects nor schemas.

mod element;
mod set;
mod v1;

pub use element::Element;
pub use set::FieldSet;
pub use v1::FieldsError;
