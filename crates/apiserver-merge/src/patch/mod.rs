//! JSON patches (RFC 6902) and JSON merge patches (RFC 7386), as the API server's Go library applies them. It differs
//! from the RFCs: `replace` may add a value, indices may count from the end, and the source of `copy` may be missing.

mod json;
mod merge;

pub use json::json_patch;
pub use merge::merge_patch;

/// Why a patch was not applied. The object is unchanged then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The body is not a patch. Status 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch has too many operations. Status 413.
    #[error("{0}")]
    TooLarge(String),
    /// The patch cannot be applied to the object. Status 422.
    #[error("{0}")]
    Inapplicable(String),
    /// An operation `test` compares with another value than there is. Status 422.
    #[error("{0}")]
    TestFailed(String),
}
