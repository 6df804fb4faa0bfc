//! The reference page of all causes.

use std::fmt::Write as _;

use super::causes::{ALL, MEANINGS};
use super::{Cause, Owner};

const HEAD: &str = "# Condition reasons

A condition that is not in its desired state has a reason. These are the reasons with which Capstan's bootstrap, control plane and infrastructure
providers wait, what each means, and who must act. [Condition reasons of core](core-conditions.md) has those of core. This page is printed from the
catalogue in `crates/api/src/wait`.

`capstan why` and `capstan describe` show what an object waits for, since when, and who must act. The metric `capstan_wait_start_time_seconds` has the same as
labels. A wait that only you can end is also a Warning event of its object, with the same reason (except `Paused`). A reason that is on neither page
belongs to another provider.

| Reason | Only in condition | What it means | Who must act | What to do |
|---|---|---|---|---|
";

/// The page in Markdown.
pub fn page() -> String {
    let mut rows: Vec<(&Cause, &str)> = ALL.iter().zip(MEANINGS.iter().map(|text| text.trim())).collect();
    rows.sort_by_key(|(cause, _)| (cause.reason, cause.on));
    let mut page = HEAD.to_owned();
    for (cause, meaning) in rows {
        let on = cause.on.map(|on| format!("`{on}`")).unwrap_or_default();
        let (who, remedy) = match cause.owner {
            Owner::Person(remedy) => ("you".to_owned(), remedy),
            owner => (owner.to_string(), "wait"),
        };
        // Writing to a String cannot fail.
        _ = writeln!(page, "| `{}` | {on} | {meaning} | {who} | {remedy} |", cause.reason);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/waits.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, page()).expect("the page is written");
        }
        let found = std::fs::read_to_string(&path).expect("the page");
        assert_eq!(found, page(), "UPDATE_GOLDEN=1 writes {} again", path.display());
    }
}
