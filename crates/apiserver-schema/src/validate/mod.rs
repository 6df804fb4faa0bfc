//! Does a value fit a schema? The walk, the order of the checks and the texts are those of a kube-apiserver, and
//! so is the count of passed checks that decides which branch of an `anyOf` explains a failure.
//! Uniqueness in lists and rules are not checked here.

mod combine;
mod limits;
mod types;

use crate::correlate::Correlation;
use crate::error::{ErrorKind, FieldError, ROOT};
use crate::node::{Additional, Node};
use crate::path::{self, index};
use serde_json::{Map, Value};

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
    matches: usize,
}

impl Outcome {
    fn passed() -> Outcome {
        Outcome { failures: Vec::new(), matches: 1 }
    }

    fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    fn fail(&mut self, failure: Failure) {
        if !self.failures.iter().any(|known| known.text == failure.text) {
            self.failures.push(failure);
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
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
    outcome.failures.into_iter().map(place).collect()
}

fn ratcheted(node: &Node, correlation: Correlation<'_>, at: &str) -> Outcome {
    let mut outcome = schema(node, correlation.new, at, Some(correlation));
    if !outcome.is_valid() && correlation.unchanged() {
        outcome.failures.clear();
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
    if let Some(schema_of_items) = &node.items {
        for (i, item) in items.iter().enumerate() {
            let at = index(at, i);
            outcome.merge(match correlation.and_then(|list| list.index(i)) {
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
