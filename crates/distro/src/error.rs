//! Errors in a user's configuration.

/// An invalid field of a CapstanConfig, with the remedy. The error never repeats a value, because it may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InputError {
    /// Path of the field, such as `spec.settings.server`.
    pub field: String,
    /// What is wrong with it, and the remedy.
    pub message: String,
}

impl InputError {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}
