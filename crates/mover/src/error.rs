//! Why a move could not be made.

use std::path::PathBuf;

/// Why a move failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The move must not begin or continue: one line for each reason, with the object and what to do.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),

    /// A request to a plane failed.
    #[error("{doing}")]
    Request {
        /// What was asked.
        doing: String,
        /// What came back.
        #[source]
        source: kube::Error,
    },

    /// A file or folder cannot be read or written.
    #[error("{doing} {}", .path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// One reason.
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused(vec![reason.into()])
    }
}

/// What everything here gives.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Says what was being done when a request failed.
pub(crate) trait Doing<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for Result<T, kube::Error> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Request { doing: doing(), source })
    }
}
