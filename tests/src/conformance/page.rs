//! The section of `docs/reference/embedded-plane.md` about Kubernetes' own specs, from the table.

#![cfg(test)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Passes, Spec, specs};

const BEGIN: &str = "<!-- conformance: written by a test from tests/suites/conformance/specs.txt -->\n";
const END: &str = "<!-- conformance: end -->\n";

/// `[sig-cli] Kubectl client Kubectl apply should …` belongs to `sig-cli`: `Kubectl client Kubectl apply`.
fn area(spec: &Spec) -> (&str, String) {
    let (sig, rest) = spec.name.strip_prefix('[').and_then(|name| name.split_once("] ")).unwrap_or_default();
    if let Some(feature) = rest.strip_prefix('[') {
        return (sig, feature.split(']').next().unwrap_or_default().to_owned());
    }
    let words = rest.split(' ').take_while(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
    let words: Vec<&str> = words.take_while(|word| !SENTENCES.contains(word)).take(2).collect();
    let whole = || rest.split(' ').take(2).collect();
    (sig, if words.is_empty() { whole() } else { words }.join(" "))
}

/// Words with which the text of a spec itself begins.
const SENTENCES: &[&str] = &["MUST", "Should", "The", "Getting"];

fn section() -> String {
    let specs = specs().unwrap();
    let count = |wanted: &[Passes]| specs.iter().filter(|spec| wanted.contains(&spec.passes)).count();
    let (real, not_run) = (count(&[Passes::OnBoth, Passes::OnReal]), count(&[Passes::NotRun]));
    let mut text = format!(
        "Of the {} specs of `sig-api-machinery`, `sig-auth` and `sig-cli`, {not_run} are not run: most wait for a node, a \
         running pod or a controller; `tests/suites/conformance/specs.txt` has the reason of each. Of the {} others, a \
         kube-apiserver without nodes passes {real}. The embedded plane passes {} of these, and {} that need a controller which that kube-apiserver lacks.\n\n\
         | Area | Specs | Not run | Pass on kube-apiserver | Pass on the embedded plane |\n|---|---|---|---|---|\n",
        specs.len(),
        specs.len() - not_run,
        count(&[Passes::OnBoth]),
        count(&[Passes::OnEmbedded]),
    );
    let mut areas: BTreeMap<(&str, String), [usize; 4]> = BTreeMap::new();
    for spec in &specs {
        let counts = areas.entry(area(spec)).or_default();
        counts[0] += 1;
        counts[1] += usize::from(spec.passes == Passes::NotRun);
        counts[2] += usize::from(matches!(spec.passes, Passes::OnBoth | Passes::OnReal));
        counts[3] += usize::from(matches!(spec.passes, Passes::OnBoth | Passes::OnEmbedded));
    }
    for ((sig, name), [all, node, real, both]) in areas {
        writeln!(text, "| {sig}: {name} | {all} | {node} | {real} | {both} |").unwrap();
    }
    text +=
        "\nSpecs that pass on kube-apiserver only:\n\n| Spec | Why not on the embedded plane |\n|---|---|\n";
    for spec in specs.iter().filter(|spec| spec.passes == Passes::OnReal) {
        let name = spec.name.replace('|', "\\|");
        writeln!(text, "| {name} | {} |", spec.reason.as_deref().unwrap_or_default()).unwrap();
    }
    text
}

#[test]
fn the_section_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/embedded-plane.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the section");
    let (_, after) = rest.split_once(END).expect("the section has an end");
    let wanted = format!("{before}{BEGIN}\n{}\n{END}{after}", section());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    assert!(found == wanted, "UPDATE_GOLDEN=1 writes the section of {path}:\n{}", section());
}
