//! What the documentation says is shown by tests: the tests that it names exist, and every feature of the README names one.
//!
//! Tests are named in the last column of a table with the heading `Test` or `Tests`, and in paragraphs that begin with
//! `**Tests:**`: a suite by its name, a file or folder by its path, or by its name alone behind a path in the same folder, and a test
//! of a file as `PATH::NAME`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The first heading of a table of hostile attempts.
const ATTEMPT: &str = "Attempt";

/// A statement of the documentation, and the tests that it names.
struct Claim<'a> {
    line: usize,
    /// The first heading of its table; empty for a paragraph.
    heading: &'a str,
    /// The cells of its row; one for a paragraph.
    cells: Vec<&'a str>,
    tests: Vec<&'a str>,
}

/// What is wrong with the tests that are named in `pages`. `is_suite` knows suites, `exists` files and folders, and `has_test`
/// the tests of a file.
pub(crate) fn faults(
    pages: &BTreeMap<PathBuf, String>,
    is_suite: &dyn Fn(&str) -> bool,
    exists: &dyn Fn(&Path) -> bool,
    has_test: &dyn Fn(&Path, &str) -> bool,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (page, text) in pages {
        for claim in claims(text) {
            let mut folder = None;
            for test in &claim.tests {
                let fault = match test.split_once("::") {
                    Some((file, name)) => (!has_test(Path::new(file), name))
                        .then(|| format!("there is no test {name} in {file}")),
                    None => fault(test, &mut folder, is_suite, exists),
                };
                if let Some(fault) = fault {
                    faults.push(format!("{}:{}: {fault}", page.display(), claim.line));
                }
            }
            if (is_feature(&claim) || is_attempt(&claim)) && claim.tests.is_empty() {
                faults.push(format!("{}:{}: no test shows this", page.display(), claim.line));
            }
        }
    }
    faults
}

/// The features of the README that only suites outside `make test` show, by suite: `is_nightly` knows those.
pub(crate) fn only_nightly(readme: &str, is_nightly: &dyn Fn(&str) -> bool) -> BTreeMap<String, Vec<String>> {
    let mut by_suite: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for claim in claims(readme).iter().filter(|claim| is_feature(claim)) {
        if claim.tests.iter().all(|test| is_nightly(test)) {
            for test in &claim.tests {
                by_suite.entry((*test).to_owned()).or_default().push(without_link(claim.cells[0]));
            }
        }
    }
    by_suite
}

/// A link of the README leads elsewhere from other places, so that only its text is kept.
fn without_link(feature: &str) -> String {
    match feature.split_once("](") {
        Some((text, rest)) => {
            text.replacen('[', "", 1) + rest.split_once(')').map(|(_, rest)| rest).unwrap_or_default()
        }
        None => feature.to_owned(),
    }
}

/// A row of the README's table that says that something works.
fn is_feature(claim: &Claim<'_>) -> bool {
    claim.cells.len() == 4 && ["✓", "partial"].contains(&claim.cells[1])
}

/// A row of a table of hostile attempts.
fn is_attempt(claim: &Claim<'_>) -> bool {
    claim.cells.len() == 3 && claim.heading == ATTEMPT
}

/// Whether a test of this name is in the text of a file.
pub(crate) fn is_in(text: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split("fn ")
        .skip(1)
        .any(|rest| rest.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_name)))
}

fn fault(
    test: &str,
    folder: &mut Option<PathBuf>,
    is_suite: &dyn Fn(&str) -> bool,
    exists: &dyn Fn(&Path) -> bool,
) -> Option<String> {
    let path = Path::new(test);
    let is_path = test.contains('/') || path.extension().is_some_and(|extension| extension == "rs");
    if !is_path {
        return (!is_suite(test)).then(|| format!("there is no suite {test}"));
    }
    if exists(path) {
        let is_folder = path.extension().is_none();
        *folder = if is_folder { Some(path.to_owned()) } else { path.parent().map(Path::to_owned) };
        return None;
    }
    let beside = folder.as_ref().is_some_and(|folder| exists(&folder.join(path)));
    (!beside).then(|| format!("there is no {test}"))
}

fn claims(text: &str) -> Vec<Claim<'_>> {
    let mut claims = Vec::new();
    let (mut in_table, mut in_paragraph, mut heading) = (false, false, "");
    for (number, line) in (1..).zip(text.lines()) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if line.starts_with('|') && matches!(cells.last(), Some(&("Test" | "Tests"))) {
            (in_table, heading) = (true, cells[0]);
            continue;
        }
        in_table &= line.starts_with('|');
        in_paragraph = line.starts_with("**Tests:**") || (in_paragraph && !line.trim().is_empty());
        if in_table && !line.starts_with("|---") {
            let tests = cells.last().map(|cell| tests(cell)).unwrap_or_default();
            claims.push(Claim { line: number, heading, cells, tests });
        } else if in_paragraph {
            let more = tests(line);
            match claims.last_mut().filter(|_| !line.starts_with("**Tests:**")) {
                // The same paragraph: names of files may follow a path of the line before.
                Some(claim) => claim.tests.extend(more),
                None => claims.push(Claim { line: number, heading: "", cells: vec![line], tests: more }),
            }
        }
    }
    claims
}

/// What is in code and names a test: neither a command nor a flag.
fn tests(text: &str) -> Vec<&str> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|code| !code.contains(' ') && !code.starts_with("--")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let pages = BTreeMap::from([(PathBuf::from("a.md"), text.to_owned())]);
        let exists = |path: &Path| ["crates/a.rs", "crates/b.rs"].iter().any(|it| path == Path::new(it));
        let has_test = |path: &Path, name: &str| {
            path == Path::new("crates/a.rs") && is_in("#[test]\nfn one() {}\nasync fn two_words() {}\n", name)
        };
        faults(&pages, &|name| name == "e2e", &exists, &has_test)
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        assert_eq!(
            found("| Statement | Test |\n|---|---|\n| x | suite `e2e`, `crates/a.rs`, `b.rs` |\n"),
            [""; 0]
        );
        assert_eq!(
            found("**Tests:** `crates/a.rs`,\n`b.rs`; `make test-all`.\n\nText with `c.rs`.\n"),
            [""; 0]
        );
        let gone =
            found("| Statement | Test |\n|---|---|\n| x | `e3e`, `crates/c.rs` |\n\n**Tests:** `b.rs`\n");
        assert_eq!(
            gone,
            ["a.md:3: there is no suite e3e", "a.md:3: there is no crates/c.rs", "a.md:5: there is no b.rs"]
        );
    }

    #[test]
    fn every_hostile_attempt_names_a_test_that_exists() {
        let table = "| Attempt | Expected | Tests |\n|---|---|---|\n";
        let row = |tests: &str| found(&format!("{table}| x | refused | {tests} |\n"));
        for good in
            ["`crates/a.rs::one`", "`crates/a.rs::one`, `crates/a.rs::two_words`, `e2e`", "`crates/b.rs`"]
        {
            assert_eq!(row(good), [""; 0], "{good}");
        }
        assert_eq!(row(""), ["a.md:3: no test shows this"]);
        for (test, file, name) in [
            ("`crates/a.rs::two`", "crates/a.rs", "two"),
            ("`crates/a.rs::words`", "crates/a.rs", "words"),
            ("`crates/c.rs::one`", "crates/c.rs", "one"),
        ] {
            assert_eq!(row(test), [format!("a.md:3: there is no test {name} in {file}")]);
        }
    }

    #[test]
    fn every_feature_names_a_test_and_some_are_checked_at_night() {
        let table = "| Feature | State | Note | Tests |\n|---|---|---|---|\n";
        assert_eq!(found(&format!("{table}| x | ✗ | | |\n")), [""; 0]);
        assert_eq!(found(&format!("{table}| x | ✓ | | |\n")), ["a.md:3: no test shows this"]);
        let readme = format!("{table}| [x](x.md) here | ✓ | | `e2e` |\n| y | partial | | `e2e`, `unit` |\n");
        let nightly = only_nightly(&readme, &|suite| suite == "e2e");
        assert_eq!(nightly, BTreeMap::from([("e2e".to_owned(), vec!["x here".to_owned()])]));
    }
}
