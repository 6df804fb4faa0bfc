//! Errors in a user's configuration.

/// An invalid field of a CapstanConfig or of a Host, with the remedy. The error never repeats a value, because it may be
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", place(.host.as_deref(), .field))]
pub struct InputError {
    /// The Host that has the field; `None` if it is a field of the CapstanConfig.
    pub host: Option<String>,
    /// Path of the field, such as `spec.settings.server`.
    pub field: String,
    /// What is wrong with it, and the remedy.
    pub message: String,
}

impl InputError {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { host: None, field: field.into(), message: message.into() }
    }

    pub(crate) fn of_host(host: String, field: String, message: impl Into<String>) -> Self {
        Self { host: Some(host), field, message: message.into() }
    }

    /// The path of the field. Of a field of a Host, kind and name of the Host stand before it.
    pub fn place(&self) -> String {
        place(self.host.as_deref(), &self.field)
    }
}

fn place(host: Option<&str>, field: &str) -> String {
    match host {
        Some(host) => format!("Host {host} {field}"),
        None => field.to_owned(),
    }
}
