//! JSON patches (RFC 6902) and JSON merge patches (RFC 7386) as the Go library of the API server applies them, which is
//! not to the letter: a replacement may be new, indices may count from the end, what is copied may be missing.

mod json;
mod merge;

pub use json::json_patch;
pub use merge::merge_patch;

/// Why a patch was not applied. Nothing is changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// What was sent is no patch. Status 400.
    #[error("{0}")]
    Malformed(String),
    /// It has too many steps. Status 413.
    #[error("{0}")]
    TooLarge(String),
    /// It does not apply to the object. Status 422.
    #[error("{0}")]
    Inapplicable(String),
}
