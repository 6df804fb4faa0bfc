//! Validates a value against a schema. The walk, the order of the checks and the messages are those of a
//! kube-apiserver. So is the count of passed checks that selects the branch of an `anyOf` whose errors are reported.
//! Uniqueness in lists and CEL rules are checked elsewhere.

mod combine;
mod limits;
mod types;

use crate::correlate::Correlation;
use crate::error::{ErrorKind, FieldError, MOST_ERRORS, ROOT};
use crate::node::{Additional, Node};
use crate::path::{self, index};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// A failed check.
#[derive(Clone, Debug)]
struct Failure {
    /// The path within the value that was validated; empty for the value itself.
    at: String,
    /// Failures of the same text are reported once.
    text: String,
    error: FieldError,
}

impl Failure {
    /// A failure whose text is the detail of its error.
    fn new(at: &str, kind: ErrorKind, value: Value, text: String) -> Failure {
        let error = FieldError::new(at, kind, Some(value), text.clone());
        Failure { at: at.to_string(), text, error }
    }

    /// A failure that upstream reports without saying which field, other than in the text.
    fn placeless(text: String) -> Failure {
        Failure::new("", ErrorKind::Invalid, Value::from(""), text)
    }
}

/// What came of validating a value: failures, and how many checks it took part in.
#[derive(Debug, Default)]
struct Outcome {
    failures: Vec<Failure>,
    /// The texts of the failures.
    texts: HashSet<String>,
    matches: usize,
}

impl Outcome {
    fn passed() -> Outcome {
        Outcome { matches: 1, ..Outcome::default() }
    }

    fn failed(failure: Failure) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.fail(failure);
        outcome
    }

    fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    /// Whether no further failure would be told.
    fn is_full(&self) -> bool {
        self.failures.len() >= MOST_ERRORS
    }

    fn fail(&mut self, failure: Failure) {
        if !self.is_full() && self.texts.insert(failure.text.clone()) {
            self.failures.push(failure);
        }
    }

    fn forgive(&mut self) {
        self.failures.clear();
        self.texts.clear();
    }

    fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        if self.failures.is_empty() {
            (self.failures, self.texts) = (other.failures, other.texts);
            return;
        }
        for failure in other.failures {
            self.fail(failure);
        }
    }

    /// Merges the outcome of one check, which counts as taken part in whatever came of it.
    fn check(&mut self, other: Outcome) {
        self.merge(other);
        self.matches += 1;
    }
}

/// Validates `value`, found at `prefix` of the object, or the object itself. Errors of what did not change are
/// left out if there is something to compare with.
pub(crate) fn validate(
    node: &Node,
    value: &Value,
    correlation: Option<Correlation<'_>>,
    prefix: &str,
) -> Vec<FieldError> {
    let outcome = match correlation {
        Some(correlation) => ratcheted(node, correlation, ""),
        None => schema(node, value, "", None),
    };
    let place = |failure: Failure| {
        // The keys of a map at the root come with a dot before them.
        let at = failure.at.strip_prefix('.').unwrap_or(&failure.at);
        let path = if at.is_empty() { prefix.to_string() } else { path::child(prefix, at) };
        FieldError { path: if path.is_empty() { ROOT.into() } else { path }, ..failure.error }
    };
    let is_full = outcome.is_full();
    let mut errors: Vec<FieldError> = outcome.failures.into_iter().map(place).collect();
    if is_full {
        let path = if prefix.is_empty() { ROOT } else { prefix };
        errors.push(FieldError::more_errors(path));
    }
    errors
}

fn ratcheted(node: &Node, correlation: Correlation<'_>, at: &str) -> Outcome {
    let mut outcome = schema(node, correlation.new, at, Some(correlation));
    if !outcome.is_valid() && correlation.unchanged() {
        outcome.forgive();
    }
    outcome
}

fn schema(node: &Node, value: &Value, at: &str, correlation: Option<Correlation<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    if value.is_null() {
        outcome.merge(types::check(node, value, at));
        outcome.merge(limits::choice(node, value, at));
        return outcome;
    }
    if !node.types().is_empty() || node.limits.checked_format.is_some() {
        outcome.check(types::check(node, value, at));
    }
    outcome.check(combine::check(node, value, at));
    match value {
        Value::String(text) => {
            outcome.check(limits::text(node, text, at));
            if let Some(format) = &node.limits.checked_format {
                outcome.check(limits::format(format, text, at));
            }
        }
        Value::Number(number) => outcome.check(limits::number(node, number, at)),
        Value::Array(items) => outcome.check(list(node, items, at, correlation)),
        _ => {}
    }
    outcome.check(limits::choice(node, value, at));
    if let Value::Object(fields) = value {
        outcome.check(object(node, fields, at, correlation));
    }
    outcome.matches += 1;
    outcome
}

fn list(node: &Node, items: &[Value], at: &str, correlation: Option<Correlation<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    let before = correlation.map(|list| list.items());
    // The items of a list that is too long are not looked at: how many there are is up to the client.
    if let Some(schema_of_items) = node.items.as_ref().filter(|_| !limits::has_too_many(node, items.len())) {
        for (i, item) in items.iter().enumerate() {
            if outcome.is_full() {
                break;
            }
            let at = index(at, i);
            outcome.merge(match before.as_ref().and_then(|before| before.get(i)) {
                Some(correlation) => ratcheted(schema_of_items, correlation, &at),
                None => schema(schema_of_items, item, &at, None),
            });
        }
    }
    for failure in limits::items(node, items.len(), at) {
        outcome.fail(failure);
    }
    outcome.matches += 1;
    outcome
}

fn object(
    node: &Node,
    fields: &Map<String, Value>,
    at: &str,
    correlation: Option<Correlation<'_>>,
) -> Outcome {
    let mut outcome = Outcome::default();
    for failure in limits::properties(node, fields.len(), at) {
        outcome.fail(failure);
    }
    for (name, value) in fields.iter().filter(|(name, _)| !node.properties.contains_key(*name)) {
        if outcome.is_full() {
            break;
        }
        match &node.additional {
            Some(Additional::Allowed(false)) => {
                let text = format!("{at}.{name} in body is a forbidden property");
                outcome.fail(Failure::new(at, ErrorKind::Invalid, Value::from(name.as_str()), text));
            }
            Some(Additional::Schema(schema)) => {
                outcome.merge(field(schema, name, value, at, &format!("{at}.{name}"), correlation));
            }
            Some(Additional::Allowed(true)) | None => {}
        }
    }
    for (name, property) in &node.properties {
        if let Some(value) = fields.get(name) {
            let inside = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            outcome.merge(field(property, name, value, at, &inside, correlation));
        }
    }
    for name in node.limits.required.iter().filter(|name| !fields.contains_key(*name)) {
        let inside = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        let text = format!("{at}.{name} in body is required");
        outcome.fail(Failure { error: FieldError::required(&inside, ""), at: inside, text });
    }
    outcome
}

fn field(
    node: &Node,
    name: &str,
    value: &Value,
    parent: &str,
    at: &str,
    correlation: Option<Correlation<'_>>,
) -> Outcome {
    // Both objects were converted to one version before they came here, so these two cannot tell a change.
    let type_meta = parent.is_empty() && (name == "kind" || name == "apiVersion");
    match correlation.and_then(|object| object.key(name)).filter(|_| !type_meta) {
        Some(correlation) => ratcheted(node, correlation, at),
        None => schema(node, value, at, None),
    }
}
