//! Prints which requests are made.

use std::fmt::Write as _;

use capstan_benches::fleet::audit::{Counts, Tally};
use capstan_benches::fleet::figures::{number, table};

/// Rows of a table of requests.
const TOP: usize = 20;

/// Verbs and kinds that are asked most, divided by `of`.
pub(crate) fn requests(title: &str, counts: &Counts, of: f64) -> String {
    top(title, counts, of, |tally| tally.requests)
}

/// Verbs and kinds that are written most, divided by `of`.
pub(crate) fn writes(title: &str, counts: &Counts, of: f64) -> String {
    top(title, counts, of, |tally| tally.writes)
}

fn top(title: &str, counts: &Counts, of: f64, by: fn(&Tally) -> u64) -> String {
    let each = |count: u64| number(count as f64 / of);
    let all = counts.total();
    let mut text = format!("\n{title}: {}, {} conflicts", each(by(&all)), each(all.conflicts));
    let verbs = counts.by_verb();
    let verbs: Vec<_> =
        verbs.iter().map(|(verb, tally)| format!("{verb} {}", each(tally.requests))).collect();
    _ = writeln!(text, " ({})\n", verbs.join(", "));
    let rows: Vec<Vec<String>> = counts
        .top(TOP, by)
        .into_iter()
        .map(|(verb, kind, tally)| {
            let conflicts = if tally.conflicts == 0 { String::new() } else { each(tally.conflicts) };
            vec![verb.to_owned(), kind.to_owned(), each(by(&tally)), conflicts]
        })
        .collect();
    if rows.is_empty() { text } else { text + &table(&["verb", "kind", "count", "conflicts"], &rows) }
}
