//! Every dependency has a licence that may be shipped with an Apache-2.0 program.
//!
//! Read from cargo's own metadata, so that it works without a network and without another program. Advisories
//! are another matter: their database is not in a package registry, so `cargo deny check advisories` is for
//! those who can reach it (see CONTRIBUTING).

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;
use crate::log::Log;

const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates with another licence that only tests use: they are never shipped. The borders between crates keep them out of
/// programs, because only `capstan-tests` and `capstan-fuzz` depend on them.
const IN_TESTS: [(&str, &str); 2] =
    [("libfuzzer-sys", "(MIT OR Apache-2.0) AND NCSA"), ("webdriver", "MPL-2.0")];

pub(crate) fn check(log: &Log) -> Result<()> {
    let metadata: Value =
        serde_json::from_slice(&cargo::metadata(log)?).context("cannot read cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("cargo's metadata has no packages")?;
    let refused: Vec<String> = packages.iter().filter_map(refusal).collect();
    if !refused.is_empty() {
        bail!("licences that are not on the list in xtask/src/licences.rs:\n{}", refused.join("\n"));
    }
    Ok(())
}

fn refusal(package: &Value) -> Option<String> {
    let licence = package["license"].as_str().unwrap_or_default();
    let name = || {
        format!(
            "  {} {}",
            package["name"].as_str().unwrap_or("?"),
            package["version"].as_str().unwrap_or("?")
        )
    };
    let is_in_tests =
        IN_TESTS.iter().any(|known| (package["name"].as_str(), licence) == (Some(known.0), known.1));
    match is_allowed(licence) || is_in_tests {
        true => None,
        false if licence.is_empty() => Some(format!("{}: names none", name())),
        false => Some(format!("{}: {licence}", name())),
    }
}

/// Whether an SPDX expression can be satisfied by allowed licences alone. `AND` binds tighter than `OR`;
/// a slash is how old crates write `OR`.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let mut words = Words(expression.split_whitespace().flat_map(split_parentheses).peekable());
    let allowed = words.any_of();
    allowed && words.0.next().is_none()
}

struct Words<I: Iterator<Item = String>>(std::iter::Peekable<I>);

impl<I: Iterator<Item = String>> Words<I> {
    fn any_of(&mut self) -> bool {
        let mut allowed = self.all_of();
        while self.take("OR") {
            // Both sides are read, whatever the first one said.
            allowed |= self.all_of();
        }
        allowed
    }

    fn all_of(&mut self) -> bool {
        let mut allowed = self.one();
        while self.take("AND") {
            allowed &= self.one();
        }
        allowed
    }

    fn one(&mut self) -> bool {
        if self.take("(") {
            let allowed = self.any_of();
            return self.take(")") && allowed;
        }
        let Some(mut licence) = self.0.next() else { return false };
        if self.take("WITH") {
            let Some(exception) = self.0.next() else { return false };
            licence = format!("{licence} WITH {exception}");
        }
        ALLOWED.contains(&licence.as_str())
    }

    fn take(&mut self, word: &str) -> bool {
        self.0.next_if(|next| next == word).is_some()
    }
}

fn split_parentheses(word: &str) -> Vec<String> {
    word.replace('(', " ( ").replace(')', " ) ").split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true),
            ("Apache-2.0 WITH Classpath-exception-2.0", false),
            ("MIT MIT", false),
            ("(MIT", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression:?}");
        }
    }
}
