//! The table of Kubernetes' own specs of the API (`suites/conformance/specs.txt`): which of them pass on which plane, and why the
//! others do not. The suite `conformance` compares it with what happens; [`page`] is what the documentation says about it. Nothing
//! in here runs a spec.

mod page;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};

const TABLE: &str = include_str!("../../suites/conformance/specs.txt");

/// Words in the names of the specs that the plane has always passed; all of them have one, and `Conformance`.
const REQUIRED: &[&str] = &[
    "Watchers",
    "CustomResourceValidationRules",
    "CRDValidationRatcheting",
    "CustomResourceDefinition",
    "CustomResourcePublishOpenAPI",
    "FieldValidation",
    "Discovery",
    "server version",
    "Table",
    "ValidatingAdmissionPolicy",
    "chunking",
];
/// Words in the names of those among them that need more: a webhook in a pod, or minutes.
const NOT_REQUIRED: &[&str] = &["FieldSelectors", "conversion", "Slow", "Serial"];

/// Where a spec passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passes {
    /// On both planes.
    OnBoth,
    /// On a kube-apiserver without nodes only.
    OnReal,
    /// On the embedded plane only: the other one lacks a controller.
    OnEmbedded,
    /// On neither: it needs more than an API server, such as a feature gate.
    OnNeither,
    /// It is not run: it waits for a node, a running pod or a controller that neither plane has.
    NotRun,
}

/// One spec of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The texts of its containers and its own.
    pub name: String,
    /// Where it passes.
    pub passes: Passes,
    /// Why it does not pass on both planes.
    pub reason: Option<String>,
}

impl Spec {
    /// Whether it is among the specs that must never be listed as failing.
    #[must_use]
    pub fn is_required(&self) -> bool {
        let has = |words: &[&str]| words.iter().any(|word| self.name.contains(word));
        let conformance = self.name.contains("sig-api-machinery") && self.name.contains("[Conformance]");
        conformance && has(REQUIRED) && !has(NOT_REQUIRED)
    }
}

/// All specs of the table, in its order.
///
/// # Errors
/// A line cannot be read, or a spec occurs twice.
pub fn specs() -> Result<Vec<Spec>> {
    read(TABLE)
}

fn read(table: &str) -> Result<Vec<Spec>> {
    let (mut specs, mut passes, mut seen) = (Vec::new(), None, BTreeSet::new());
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        passes = match line {
            "on both planes:" => Some(Passes::OnBoth),
            "on a kube-apiserver only:" => Some(Passes::OnReal),
            "on the embedded plane only:" => Some(Passes::OnEmbedded),
            "on neither:" => Some(Passes::OnNeither),
            "not run:" => Some(Passes::NotRun),
            _ => passes,
        };
        if line.ends_with(':') && !line.starts_with(' ') {
            continue;
        }
        let passes = passes.with_context(|| format!("{line:?} is in no section"))?;
        let line = line.trim();
        let (name, reason) = match line.split_once(" => ") {
            Some((name, reason)) => (name, Some(reason.to_owned())),
            None => (line, None),
        };
        ensure!(seen.insert(name), "{name} occurs twice");
        if (passes == Passes::OnBoth) != reason.is_none() {
            bail!("{name}: a spec has a reason exactly if it does not pass on both planes");
        }
        specs.push(Spec { name: name.to_owned(), passes, reason });
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_forty_specs_pass() {
        let required: Vec<Spec> = specs().unwrap().into_iter().filter(Spec::is_required).collect();
        assert!(required.len() >= 40, "{} are required", required.len());
        for spec in required {
            assert_eq!(spec.passes, Passes::OnBoth, "{}", spec.name);
        }
    }

    #[test]
    fn reasons_belong_to_specs_that_fail() {
        let read_one = |line: &str| read(&format!("on neither:\n  {line}\n"));
        assert_eq!(read_one("a => because").unwrap()[0].reason.as_deref(), Some("because"));
        assert!(read_one("a").is_err());
        assert!(read("on both planes:\n  a => because\n").is_err());
        assert!(read("  a\n").is_err(), "no section");
        assert!(read("on both planes:\n  a\n  a\n").is_err(), "twice");
    }
}
