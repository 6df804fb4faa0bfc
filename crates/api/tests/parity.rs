//! Our CRDs against what upstream's v1.14 says of the same kinds, field by field.
//!
//! `data/upstream-v1.14-crd-facts.jsonl` holds one line per CRD: every field path of the v1beta2 schema with
//! its type, limits, defaults, list types and CEL rules, and the columns, names and subresources. A
//! difference that is not in [`DIVERGENCES`] fails; so does an entry there that no longer differs.

#![cfg(test)]

mod divergences;
mod facts;

use divergences::DIVERGENCES;
use facts::{Facts, difference};
use std::collections::{BTreeMap, BTreeSet};

fn upstream() -> BTreeMap<String, Facts> {
    include_str!("data/upstream-v1.14-crd-facts.jsonl")
        .lines()
        .map(|line| Facts::of_upstream(&serde_json::from_str(line).unwrap()))
        .map(|facts| (facts.crd.clone(), facts))
        .collect()
}

fn ours() -> BTreeMap<String, Facts> {
    capstan_api::crd::all().iter().map(Facts::of_crd).map(|facts| (facts.crd.clone(), facts)).collect()
}

#[test]
fn every_upstream_kind_is_ours_too() {
    let ours = ours();
    let missing: Vec<_> = upstream().into_keys().filter(|crd| !ours.contains_key(crd)).collect();
    assert!(missing.is_empty(), "no CRD for {missing:?}");
}

#[test]
fn every_difference_from_upstream_is_listed_and_explained() {
    let ours = ours();
    let known: BTreeSet<(&str, &str)> = DIVERGENCES.iter().map(|d| (d.crd, d.place)).collect();
    let mut found = BTreeSet::new();
    let mut unexplained = Vec::new();
    for (crd, theirs) in upstream() {
        let Some(ours) = ours.get(&crd) else { continue };
        for (place, text) in difference(&theirs, ours) {
            match known.iter().find(|(c, p)| (*c == "*" || *c == crd) && *p == place) {
                Some(entry) => _ = found.insert(*entry),
                None => unexplained.push(format!("{crd} {place}: {text}")),
            }
        }
    }
    assert!(unexplained.is_empty(), "{} differences:\n{}", unexplained.len(), unexplained.join("\n"));
    let stale: Vec<_> = known.difference(&found).collect();
    assert!(stale.is_empty(), "listed as different, but equal: {stale:?}");
}

#[test]
fn every_field_has_a_description_of_its_own() {
    let bare: Vec<_> = ours()
        .into_values()
        .flat_map(|facts| facts.undescribed.into_iter().map(move |path| format!("{} {path}", facts.crd)))
        .collect();
    assert!(bare.is_empty(), "no description:\n{}", bare.join("\n"));
}
