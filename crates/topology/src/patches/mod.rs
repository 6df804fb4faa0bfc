//! Patches of a class: which templates they select, the JSON patches that they make of variables, and their application
//! to the desired objects.
//!
//! Inline patches are computed here. A patch of a runtime extension needs a request, so [`Patching`] stops at it and
//! goes on with the response.

mod engine;
mod inline;
mod selector;
mod variable_path;

pub use engine::{Generated, Holder, Item, Part, Patching, Step};
pub(crate) use selector::name_matches;
pub use variable_path::LookupError;
pub(crate) use variable_path::lookup;

use crate::gotemplate::TemplateError;
use capstan_apiserver_merge::PatchError;

/// Why the patches of a class cannot be applied to a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot apply patch {patch:?} of the ClusterClass{}: {why}", on(.template.as_ref()))]
pub struct PatchFailure {
    /// Name of the patch.
    pub patch: String,
    /// The template that it was for, if it failed for one.
    pub template: Option<String>,
    /// What failed.
    #[source]
    pub why: PatchFault,
}

fn on(template: Option<&String>) -> String {
    template.map(|template| format!(" to {template}")).unwrap_or_default()
}

/// What fails in a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchFault {
    /// The condition of the patch is not a template, or fails.
    #[error("enabledIf: {0}")]
    EnabledIf(#[source] TemplateError),
    /// The template of a value fails.
    #[error("definitions[{definition}].jsonPatches[{operation}].valueFrom.template: {why}")]
    Template {
        /// Index of the definition.
        definition: usize,
        /// Index of the operation.
        operation: usize,
        /// Why it fails.
        why: TemplateError,
    },
    /// The variable of a value does not exist.
    #[error("definitions[{definition}].jsonPatches[{operation}].valueFrom.variable: {why}")]
    Variable {
        /// Index of the definition.
        definition: usize,
        /// Index of the operation.
        operation: usize,
        /// Why there is no value.
        why: LookupError,
    },
    /// An operation has not exactly one source of its value.
    #[error(
        "definitions[{definition}].jsonPatches[{operation}]: one of value, valueFrom.variable and valueFrom.template \
         must be set"
    )]
    Source {
        /// Index of the definition.
        definition: usize,
        /// Index of the operation.
        operation: usize,
    },
    /// The JSON patch does not fit the template.
    #[error("{0}")]
    Patch(#[source] PatchError),
    /// The patch has neither definitions nor an extension that generates it.
    #[error("it has neither definitions nor external.generatePatchesExtension")]
    Empty,
    /// An extension answered for a template that it was not asked for.
    #[error("the runtime extension patches template {0}, which was not in the request")]
    UnknownItem(usize),
    /// The patch is made by a runtime extension, and the caller has none.
    #[error("runtime extension {0:?} is needed")]
    External(String),
}

#[cfg(test)]
mod tests;
