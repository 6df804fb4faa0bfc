//! Errors, by what is to be done about them.

pub use capstan_text::chain;

use thiserror::Error;

/// The result of a reconcile, or of a part of it.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a reconcile failed, which decides when it is retried.
#[derive(Debug, Error)]
pub enum Error {
    /// May resolve without a change of an object: retried with backoff.
    #[error("{doing}")]
    Transient {
        /// What was being done.
        doing: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// Another client has written the object: retried at once with the current object.
    #[error("{doing}: another client has changed the object since it was read")]
    Conflict {
        /// What was being done.
        doing: String,
    },

    /// The manager lacks a right: retried, because the right may be granted later.
    #[error("{doing}: {message}")]
    Forbidden {
        /// What was being done.
        doing: String,
        /// What the server says, and who gives the right.
        message: String,
    },

    /// Stays until an object changes. `field` names the field, `message` says what is wrong and what to do.
    #[error("{field}: {message}")]
    User {
        /// Kind, name and path of the field to change.
        field: String,
        /// What is wrong with it, and the remedy.
        message: String,
    },
}

impl Error {
    /// An error that may resolve without a change of an object.
    pub fn transient(
        doing: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Transient { doing: doing.into(), source: source.into() }
    }

    /// Whether the API server has rejected the request, so that it had no effect. A request without a response may have
    /// been carried out.
    pub fn is_rejection(&self) -> bool {
        match self {
            Self::Conflict { .. } | Self::Forbidden { .. } => true,
            Self::Transient { source, .. } => {
                let said = source.downcast_ref::<kube::Error>();
                matches!(said, Some(kube::Error::Api(status)) if (400..500).contains(&status.code))
            }
            Self::User { .. } => false,
        }
    }

    /// An error that stays until the user changes a field.
    pub fn user(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::User { field: field.into(), message: message.into() }
    }
}

/// Adds to a failed request what it was for.
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
                Error::Forbidden { doing: what(), message: forbidden(&status.message) }
            }
            _ => Error::transient(what(), error),
        })
    }
}

/// What the rights of controllers in a namespace with clusters are about; see [`capstan_api::access`].
const GIVEN_BY_NAMESPACE: [&str; 9] = [
    "secrets",
    "configmaps",
    "serviceaccounts",
    "serviceaccounts/token",
    "roles",
    "rolebindings",
    "leases",
    "events",
    "machinereports/status",
];

/// The API server's message about a missing right, on one line, with the remedy if users grant that right per
/// namespace.
pub fn forbidden(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    let quoted = |before: &str| {
        let (_, rest) = message.split_once(before)?;
        rest.split('"').next().filter(|word| !word.is_empty())
    };
    let resource = quoted("resource \"").unwrap_or_default();
    match quoted("in the namespace \"") {
        Some(namespace) if GIVEN_BY_NAMESPACE.contains(&resource) => format!(
            "{message}; let Capstan work in that namespace: capstan generate access --namespace {namespace} | kubectl \
             apply -f -"
        ),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_missing_right_has_its_remedy() {
        let refused = |what: &str| format!("{what} is forbidden: User \"u\" cannot get resource");
        let secret =
            format!("{} \"secrets\" in API group \"\" in the namespace \"yard\"", refused("secrets \"s\""));
        let message = forbidden(&secret);
        assert!(message.starts_with(&secret), "{message}");
        assert!(
            message.ends_with("capstan generate access --namespace yard | kubectl apply -f -"),
            "{message}"
        );
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
    fn a_request_without_a_response_is_not_a_rejection() {
        let answered = |code: u16, reason: &str| {
            let status = kube::core::Status { code, reason: reason.to_owned(), ..Default::default() };
            Err::<(), _>(kube::Error::Api(Box::new(status))).doing(String::new).expect_err("it failed")
        };
        for (code, reason) in
            [(403, "Forbidden"), (409, "Conflict"), (409, "AlreadyExists"), (422, "Invalid")]
        {
            assert!(answered(code, reason).is_rejection(), "{code} {reason}");
        }
        assert!(!answered(500, "InternalError").is_rejection());
        assert!(!answered(504, "Timeout").is_rejection());
        assert!(!Error::transient("cannot apply", std::io::Error::other("connection reset")).is_rejection());
    }

    #[test]
    fn each_error_of_the_chain_is_shown_once() {
        let error = Error::transient("cannot read Machine a/b", std::io::Error::other("connection refused"));
        assert_eq!(chain(&error), "cannot read Machine a/b: connection refused");
        assert_eq!(chain(&Error::user("spec.version", "is too old")), "spec.version: is too old");
    }
}
