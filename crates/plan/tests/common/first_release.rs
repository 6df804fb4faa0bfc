//! A stand-in for an agent of the first release: it rejects every plan with a field, a kind of step or a rule that was not there
//! yet.
//!
//! What was there is the plan in `golden/first-release.json`, which used all of it. That file never changes.

use serde_json::Value;
use std::collections::BTreeSet;

/// Fields with one of a few texts, and the texts of the first release.
const TEXTS: [(&str, &[&str]); 4] = [
    ("apiVersion", &["agent.capstan.dev/v1alpha1"]),
    ("kind", &["MachinePlan"]),
    ("repeat", &["once", "always", "untilSuccess"]),
    ("unpack", &["tarGz", "tarZst"]),
];

/// Reads a plan as an agent of the first release does.
pub(crate) fn read(plan: &[u8]) -> Result<(), String> {
    let (mut known, mut found) = (BTreeSet::new(), BTreeSet::new());
    fields(&serde_json::from_str(include_str!("../golden/first-release.json")).unwrap(), "", &mut known);
    fields(&serde_json::from_slice(plan).map_err(|error| error.to_string())?, "", &mut found);
    match found.difference(&known).next() {
        Some(unknown) => Err(format!("unknown field {unknown}")),
        None => Ok(()),
    }
}

/// The path of every field, without positions in lists.
fn fields(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = format!("{at}/{key}");
                fields(value, &path, found);
                let texts = TEXTS.iter().find(|(field, _)| field == key);
                if let (Some((_, known)), Some(text)) = (texts, value.as_str())
                    && !known.contains(&text)
                {
                    found.insert(format!("{path}={text}"));
                }
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, at, found)),
        _ => {}
    }
}
