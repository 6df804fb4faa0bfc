//! Formats values for display, and hides secrets.

use capstan_plan::Digest;
use serde_json::Value;

use super::table::Disclosure;
use crate::k3s;

/// Longer values are cut.
const MOST_CHARACTERS: usize = 80;

const HIDDEN: &str = "(not shown)";

/// A value of a field whose last part is `name`. What is not set is not shown.
pub(super) fn show(shown: Disclosure, name: &str, value: Option<&Value>) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    Some(match shown {
        Disclosure::Value => cut(&text(value)),
        Disclosure::Digest => {
            let text = text(value);
            format!("{} bytes, sha256 {}", text.len(), Digest::of(text.as_bytes()).short())
        }
        Disclosure::Setting if k3s::may_be_shown(name, value) => cut(&text(value)),
        Disclosure::Setting => HIDDEN.to_owned(),
    })
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => match (fields.get("kind"), fields.get("name")) {
            // A reference, as people say it.
            (Some(Value::String(kind)), Some(Value::String(name))) => format!("{kind} {name}"),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
