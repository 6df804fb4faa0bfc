//! Errors, by what is to be done about them.

use thiserror::Error;

/// What a reconcile ends with when it cannot go on.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a reconcile could not go on, and so whether it makes sense to try again.
#[derive(Debug, Error)]
pub enum Error {
    /// May go away by itself: tried again, with back-off.
    #[error("{doing}")]
    Transient {
        /// What was being done.
        doing: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// Somebody else wrote the object meanwhile: tried again at once, on what it is now.
    #[error("{doing}: somebody else has changed the object meanwhile")]
    Conflict {
        /// What was being done.
        doing: String,
    },

    /// The manager lacks a right: tried again, because somebody may give it.
    #[error("{doing}: {told}")]
    Forbidden {
        /// What was being done.
        doing: String,
        /// What the server says, and who gives the right.
        told: String,
    },

    /// Stays until an object changes. `field` says which, `message` what is wrong and what to do.
    #[error("{field}: {message}")]
    User {
        /// Kind, name and path of the field to change.
        field: String,
        /// What is wrong with it, and the remedy.
        message: String,
    },
}

impl Error {
    /// An error that may go away by itself.
    pub fn transient(
        doing: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Transient { doing: doing.into(), source: source.into() }
    }

    /// An error that stays until somebody changes a field.
    pub fn user(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::User { field: field.into(), message: message.into() }
    }
}

/// Says what was being done when a request failed.
pub trait Doing<T> {
    /// Turns a failed request into an [`Error`] of the right sort.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for std::result::Result<T, kube::Error> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| match &error {
            kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict" => {
                Error::Conflict { doing: what() }
            }
            kube::Error::Api(status) if status.code == 403 => {
                Error::Forbidden { doing: what(), told: forbidden(&status.message) }
            }
            _ => Error::transient(what(), error),
        })
    }
}

/// What the rights of controllers in a namespace with clusters are about; see [`capstan_api::access`].
const GIVEN_BY_NAMESPACE: [&str; 8] = [
    "secrets",
    "serviceaccounts",
    "serviceaccounts/token",
    "roles",
    "rolebindings",
    "leases",
    "events",
    "machinereports/status",
];

/// What the server says of a missing right, on one line, with the remedy where it is one that users give for each
/// namespace.
pub fn forbidden(message: &str) -> String {
    let told = message.lines().next().unwrap_or_default();
    let quoted = |before: &str| {
        let (_, rest) = told.split_once(before)?;
        rest.split('"').next().filter(|word| !word.is_empty())
    };
    let resource = quoted("resource \"").unwrap_or_default();
    match quoted("in the namespace \"") {
        Some(namespace) if GIVEN_BY_NAMESPACE.contains(&resource) => format!(
            "{told}; let Capstan work in that namespace: capstan generate access --namespace {namespace} | kubectl \
             apply -f -"
        ),
        _ => told.to_owned(),
    }
}

/// The whole chain on one line, for logs and conditions.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let words = source.to_string();
        // Some libraries repeat their source in their own text.
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_told_with_its_remedy() {
        let refused = |what: &str| format!("{what} is forbidden: User \"u\" cannot get resource");
        let secret =
            format!("{} \"secrets\" in API group \"\" in the namespace \"yard\"", refused("secrets \"s\""));
        let told = forbidden(&secret);
        assert!(told.starts_with(&secret), "{told}");
        assert!(told.ends_with("capstan generate access --namespace yard | kubectl apply -f -"), "{told}");
        for other in [
            format!(
                "{} \"machines\" in API group \"x\" in the namespace \"yard\"",
                refused("machines \"m\"")
            ),
            format!("{} \"secrets\" in API group \"\" at the cluster scope", refused("secrets")),
        ] {
            assert_eq!(forbidden(&other), other);
        }
        assert_eq!(forbidden("roles is forbidden:\n{APIGroups:[...]}"), "roles is forbidden:");
    }

    #[test]
    fn the_chain_is_told_once() {
        let error = Error::transient("cannot read Machine a/b", std::io::Error::other("connection refused"));
        assert_eq!(chain(&error), "cannot read Machine a/b: connection refused");
        assert_eq!(chain(&Error::user("spec.version", "is too old")), "spec.version: is too old");
    }
}
