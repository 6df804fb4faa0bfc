//! The machines of a control plane: created, changed in place, and deleted, one at a time.

mod act;
mod build;
mod observe;
mod status;

pub(crate) use act::{confirm, delete, note_what_was_made, own_template, step, sync};
pub(crate) use build::{propagate, template_name};
pub(crate) use observe::{View, wanted};
