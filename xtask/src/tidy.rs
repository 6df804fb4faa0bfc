//! Rules that every file of the repository keeps, and every crate: see [`borders`].

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::log::Log;
use crate::{borders, cargo, claims, links, module_cycles, paths, plan};

/// A file longer than this is two rooms.
const MOST_LINES: usize = 800;

pub(crate) fn check(log: &Log) -> Result<()> {
    let root = paths::root()?;
    let mut faults = Vec::new();
    let (mut pages, mut sources) = (BTreeMap::new(), Vec::new());
    for file in files(root)? {
        let Ok(text) = std::fs::read_to_string(root.join(&file)) else { continue };
        faults.extend(
            faults_of(&file, &text).into_iter().map(|fault| format!("  {}: {fault}", file.display())),
        );
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("md") => drop(pages.insert(file, text)),
            Some("rs") => sources.push((file.to_string_lossy().into_owned(), text)),
            _ => {}
        }
    }
    faults.extend(module_cycles::faults(&sources).into_iter().map(|fault| format!("  {fault}")));
    let broken = links::faults(&pages, &|path| root.join(path).exists());
    faults.extend(broken.into_iter().map(|fault| format!("  {fault}")));
    let suites = plan::test_all();
    let is_suite = |name: &str| suites.iter().any(|suite| suite.name == name);
    let has_test = |path: &Path, name: &str| {
        std::fs::read_to_string(root.join(path)).is_ok_and(|text| claims::is_in(&text, name))
    };
    let unshown = claims::faults(&pages, &is_suite, &|path| root.join(path).exists(), &has_test);
    faults.extend(unshown.into_iter().map(|fault| format!("  {fault}")));
    let crossed = borders::faults(&cargo::metadata(log)?)?;
    faults.extend(crossed.into_iter().map(|fault| format!("  {fault}")));
    if !faults.is_empty() {
        bail!("{} faults:\n{}", faults.len(), faults.join("\n"));
    }
    Ok(())
}

/// What git tracks or would track.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    if !output.status.success() {
        bail!("`git ls-files` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect())
}

fn faults_of(file: &Path, text: &str) -> Vec<String> {
    let name = file.to_string_lossy();
    let is_rust = name.ends_with(".rs");
    let mut faults = Vec::new();
    if is_rust && text.lines().count() > MOST_LINES {
        faults.push(format!("has more than {MOST_LINES} lines: it is two rooms"));
    }
    if is_rust && !text.starts_with("//!") {
        faults.push("does not begin with a //! that says what it is for".to_owned());
    }
    let generated = name.starts_with("config/crd/") || name.ends_with(".jsonl") || name.ends_with("go.sum");
    for (number, line) in (1..).zip(text.lines()) {
        if !generated && (line.ends_with(' ') || line.ends_with('\t')) {
            faults.push(format!("line {number} ends in white space"));
        }
        if is_rust && line.trim_start().starts_with(IGNORE) {
            faults.push(format!("line {number} ignores a test: repair it or delete it"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push("does not end in a line end".to_owned());
    }
    faults
}

/// Spelt in two halves, so that this file does not trip over itself.
const IGNORE: &str = concat!("#[", "ignore");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found() {
        let rust = Path::new("a.rs");
        assert!(faults_of(rust, "//! Good.\n").is_empty());
        assert_eq!(faults_of(rust, "fn f() {}\n").len(), 1);
        assert_eq!(faults_of(rust, "//! Bad. \n").len(), 1);
        assert_eq!(faults_of(rust, "//! Bad.").len(), 1);
        assert_eq!(faults_of(rust, &format!("//! Bad.\n{IGNORE}]\n")).len(), 1);
        assert_eq!(faults_of(rust, &format!("//! Long.\n{}", "\n".repeat(MOST_LINES))).len(), 1);
        assert!(faults_of(Path::new("a.md"), "Fine.\n").is_empty());
    }
}
