//! Reasons of conditions, with their meaning and remedy: constants for the code, and rows for the reference page.

use std::fmt::Write as _;

/// A reason, as a row of the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonInfo {
    /// The reason.
    pub reason: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What a person can do; none for a normal state.
    pub remedy: Option<&'static str>,
}

/// Defines a constant for each reason, and `ALL` with the meaning and the remedy of each. The doc comment of a constant is
/// the meaning. A reason without a remedy is a normal state.
#[macro_export]
macro_rules! condition_reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $reason:literal $(=> $remedy:literal)?;)*) => {
        $($(#[doc = $doc])+ pub const $name: &str = $reason;)*

        /// All of them.
        pub const ALL: &[$crate::conditions::ReasonInfo] = &[$($crate::conditions::ReasonInfo {
            reason: $reason,
            meaning: concat!($($doc),+),
            remedy: $crate::condition_reasons!(@remedy $($remedy)?),
        }),*];
    };
    (@remedy) => { None };
    (@remedy $remedy:literal) => { Some($remedy) };
}

/// The reasons as a table in Markdown, sorted by name.
pub fn reason_table(reasons: &[ReasonInfo]) -> String {
    let mut rows = reasons.to_vec();
    rows.sort_by_key(|row| row.reason);
    let mut table = "| Reason | What it means | What to do |\n|---|---|---|\n".to_owned();
    for ReasonInfo { reason, meaning, remedy } in rows {
        // Writing to a String cannot fail.
        _ = writeln!(
            table,
            "| `{reason}` | {} | {} |",
            meaning.trim(),
            remedy.unwrap_or("Nothing: this is normal.")
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(unreachable_pub, reason = "the macro is for public modules")]
    mod sample {
        crate::condition_reasons! {
            /// The object is ready,
            /// and all is well.
            READY = "Ready";
            /// It is not.
            NOT_READY = "NotReady" => "Look at it.";
        }
    }

    #[test]
    fn a_reason_is_a_constant_and_a_row() {
        assert_eq!((sample::READY, sample::NOT_READY), ("Ready", "NotReady"));
        let table = reason_table(sample::ALL);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| `NotReady` | It is not. | Look at it. |",
                "| `Ready` | The object is ready, and all is well. | Nothing: this is normal. |"
            ]
        );
    }
}
