//! The objects of `tests/fixtures/objects` keep everything through a read and a write; and they are enough: every
//! kind has some, every field of every schema is used, every rule of every schema is tried.
//!
//! Whether an API server agrees is for the suite `crds` to find out.

#![cfg(test)]

#[path = "../../../tests/src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "the other reader of the file uses all of it, from outside")]
mod fixtures;
mod places;

use std::collections::{BTreeMap, BTreeSet};

use capstan_api::crd;
use fixtures::{Fixture, When};
use places::{Places, Rule};

/// Every kind with its places and its fixture.
fn kinds() -> Vec<(String, Places, Fixture)> {
    let mut fixtures: BTreeMap<String, Fixture> =
        fixtures::all().into_iter().map(|fixture| (fixture.kind().to_owned(), fixture)).collect();
    let kinds = crd::all()
        .iter()
        .map(|crd| {
            let kind = crd.spec.names.kind.clone();
            let file = format!("tests/fixtures/objects/{}.yaml", kind.to_lowercase());
            let fixture = fixtures.remove(&kind).unwrap_or_else(|| panic!("{file} is missing"));
            (kind, Places::of(crd), fixture)
        })
        .collect();
    assert!(fixtures.is_empty(), "fixtures of no kind of ours: {:?}", fixtures.keys());
    kinds
}

#[test]
fn valid_objects_survive_a_read_and_a_write() {
    for (kind, _, fixture) in kinds() {
        for object in &fixture.valid {
            let rewritten = fixtures::rewritten(object).unwrap_or_else(|error| panic!("{kind}: {error}"));
            let lost = fixtures::lost(object, &rewritten);
            let added = fixtures::lost(&rewritten, object);
            assert!(lost.is_empty() && added.is_empty(), "{kind}: {lost:#?} lost, {added:#?} added");
            assert_eq!(&rewritten, object, "{kind}");
        }
    }
}

#[test]
fn valid_objects_use_every_field_and_no_other() {
    let mut wrong = Vec::new();
    for (kind, places, fixture) in kinds() {
        let used: BTreeSet<String> = fixture.valid.iter().flat_map(|object| places.used_by(object)).collect();
        let missing = places.fields.difference(&used);
        wrong.extend(missing.map(|path| format!("{kind} {path} is not used")));
        wrong.extend(
            used.difference(&places.fields).map(|path| format!("{kind} {path} is not in the schema")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_tried() {
    let mut untried = Vec::new();
    for (kind, places, fixture) in kinds() {
        for rule in &places.rules {
            if !is_tried(rule, &fixture) {
                untried.push(format!("{kind} {}: {}", rule.path, rule.message));
            }
        }
    }
    assert!(untried.is_empty(), "no refused case blames the field and says so:\n{}", untried.join("\n"));
}

fn is_tried(rule: &Rule, fixture: &Fixture) -> bool {
    let needs_update = rule.rule.contains("oldSelf");
    fixture.refused.iter().any(|case| {
        place(&case.field) == rule.path
            && case.says.as_ref().is_some_and(|says| rule.message.contains(says))
            && (!needs_update || case.when == When::Update)
    })
}

/// The path of a schema for the path of a field in an object, in which the API server calls the object `<nil>`.
fn place(field: &str) -> String {
    if field == "<nil>" {
        return String::new();
    }
    let mut place = ".".to_owned();
    let mut in_brackets = false;
    for character in field.chars() {
        in_brackets = character == '[' || (in_brackets && character != ']');
        if !(in_brackets && character.is_ascii_digit()) {
            place.push(character);
        }
    }
    place
}

#[test]
fn every_kind_has_cases_that_differ() {
    for (kind, _, fixture) in kinds() {
        assert!(fixture.refused.len() >= 3, "{kind} has only {} refused cases", fixture.refused.len());
        let reasons: BTreeSet<&str> = fixture.refused.iter().map(|case| case.because.as_str()).collect();
        assert_eq!(reasons.len(), fixture.refused.len(), "{kind} has two cases of one name");
        for case in &fixture.refused {
            assert_ne!(&fixture.after(case), fixture.before(case), "{kind}: {}: no change", case.because);
        }
        let names: BTreeSet<&str> =
            fixture.valid.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), fixture.valid.len(), "{kind} has two objects of one name");
    }
}
