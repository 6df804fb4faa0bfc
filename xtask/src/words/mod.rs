//! Words that hide the meaning of a text: they name no actor, or say in an old way what has a technical name.
//!
//! In texts for users (`--help`, errors, CRD descriptions, templates, documentation) they are faults. How many of them
//! a file may still have is in `xtask/words-baseline.txt`; a number in there can only go down. Elsewhere, in comments and
//! tests, they are counted.

mod baseline;
mod lexer;
mod phrases;
mod rust;

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::log::Log;
use crate::{paths, tidy};
use phrases::Hit;

const BASELINE: &str = "xtask/words-baseline.txt";

/// The hits of each file that has some in texts for users, and how many there are elsewhere.
struct Found {
    shown: BTreeMap<String, Vec<Hit>>,
    elsewhere: usize,
}

/// Fails where a file has other hits than the baseline allows.
pub(crate) fn check(log: &Log) -> Result<()> {
    let root = paths::root()?;
    let found = search(root)?;
    let faults = baseline::compare(&baseline::parse(&read_baseline(root)?)?, &found.shown);
    let shown: usize = found.shown.values().map(Vec::len).sum();
    log.line(&format!("{shown} left in texts for users, {} in comments and tests", found.elsewhere));
    if !faults.is_empty() {
        bail!("{} faults:\n{}", faults.len(), faults.join("\n"));
    }
    Ok(())
}

/// Writes the baseline again, with lower numbers where fewer hits are left, and never with higher ones.
pub(crate) fn lower() -> Result<()> {
    let root = paths::root()?;
    let allowed = baseline::parse(&read_baseline(root)?)?;
    let lowered = baseline::lower(&allowed, &search(root)?.shown);
    fs::write(root.join(BASELINE), baseline::render(&lowered))
        .with_context(|| format!("cannot write {BASELINE}"))
}

fn read_baseline(root: &Path) -> Result<String> {
    fs::read_to_string(root.join(BASELINE)).with_context(|| format!("cannot read {BASELINE}"))
}

fn search(root: &Path) -> Result<Found> {
    let mut found = Found { shown: BTreeMap::new(), elsewhere: 0 };
    for file in tidy::files(root)? {
        let Ok(text) = fs::read_to_string(root.join(&file)) else { continue };
        let name = file.to_string_lossy().into_owned();
        let (shown, elsewhere) = of_file(&name, &text);
        found.elsewhere += elsewhere;
        if !shown.is_empty() {
            found.shown.insert(name, shown);
        }
    }
    Ok(found)
}

/// The hits in what users read of a file, and the number of all others in it.
fn of_file(name: &str, text: &str) -> (Vec<Hit>, usize) {
    // These spell the words out, and the history is not written again.
    let is_exempt = name.starts_with("xtask/src/words/") || name == BASELINE || name == "CHANGELOG.md";
    // Recorded data and lock files are not written by people.
    let is_text = [".rs", ".md", ".yaml", ".sh", ".toml", "Makefile"].iter().any(|end| name.ends_with(end));
    if is_exempt || !is_text {
        return (Vec::new(), 0);
    }
    let all = phrases::hits(text, 1);
    let shown: Vec<Hit> = match audience(name) {
        Audience::Whole => all.clone(),
        Audience::Rust => {
            let texts = rust::user_texts(text);
            texts.iter().flat_map(|text| phrases::hits(&text.text, text.line)).collect()
        }
        Audience::Contributors => Vec::new(),
    };
    let elsewhere = all.len().saturating_sub(shown.len());
    (shown, elsewhere)
}

/// Who reads a file.
enum Audience {
    /// Users read all of it.
    Whole,
    /// Users read its strings, and the doc comments that become `--help`.
    Rust,
    Contributors,
}

fn audience(name: &str) -> Audience {
    let below = |folders: &[&str]| folders.iter().any(|folder| name.starts_with(folder));
    let is_test = below(&["tests/", "benches/", "crates/fuzz/", "crates/testkit/"])
        || name.contains("/tests/")
        || name.contains("/fixtures/")
        || name.ends_with("tests.rs");
    if name == "README.md" || name == "CONTRIBUTING.md" || below(&["docs/", "templates/", "config/crd/"]) {
        Audience::Whole
    } else if name.ends_with(".rs") && !is_test {
        Audience::Rust
    } else {
        Audience::Contributors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(name: &str, text: &str) -> (Vec<&'static str>, usize) {
        let (shown, elsewhere) = of_file(name, text);
        (shown.iter().map(|hit| hit.phrase).collect(), elsewhere)
    }

    #[test]
    fn documentation_is_read_whole() {
        assert_eq!(words("docs/a.md", "Nobody\nknows.\n"), (vec!["nobody"], 0));
        assert_eq!(words("config/crd/a.yaml", "description: whoever\n"), (vec!["whoever"], 0));
        assert_eq!(words("CHANGELOG.md", "nobody\n"), (vec![], 0));
    }

    #[test]
    fn code_shows_its_strings_and_counts_its_comments() {
        let code = "//! For nobody.\nfn f() -> &'static str { \"nobody claims it\" }\n";
        assert_eq!(words("crates/core/src/a.rs", code), (vec!["nobody"], 1));
        assert_eq!(words("crates/core/tests/a.rs", code), (vec![], 2));
        assert_eq!(words("crates/core/src/a/tests.rs", code), (vec![], 2));
    }
}
