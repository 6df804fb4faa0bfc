//! Whether two answers are the same but for what is never the same: UIDs, times and revisions.

use capstan_tests::Answer;
use serde_json::Value;

/// Where two answers part, told in one line for each place. Fields called as in `left_alone` do not matter.
pub(crate) fn difference(real: &Answer, embedded: &Answer, left_alone: &[&str]) -> Option<String> {
    let [one, other] = [real, embedded].map(|answer| {
        let mut body = answer.body.clone();
        normalise(&mut body);
        leave_alone(&mut body, left_alone);
        // A directive of a strategic merge patch that had nothing to direct.
        let mut warnings: Vec<_> =
            answer.warnings.iter().filter(|warning| !warning.contains("$retainKeys")).collect();
        warnings.sort();
        serde_json::json!({"code": answer.code, "warnings": warnings, "body": body})
    });
    let mut differences = Vec::new();
    compare("", &one, &other, &mut differences);
    // The message of what is invalid repeats its causes, and those are compared.
    let has_causes = |answer: &Value| answer.pointer("/body/details/causes").is_some();
    if has_causes(&one) && has_causes(&other) {
        differences.retain(|difference: &String| !difference.starts_with("    .body.message\n"));
    }
    (!differences.is_empty()).then(|| differences.concat())
}

/// The same for what is no answer.
pub(crate) fn difference_of_values(real: &Value, embedded: &Value, left_alone: &[&str]) -> Option<String> {
    let [one, other] = [real, embedded].map(|value| {
        let mut value = value.clone();
        normalise(&mut value);
        leave_alone(&mut value, left_alone);
        value
    });
    let mut differences = Vec::new();
    compare("", &one, &other, &mut differences);
    (!differences.is_empty()).then(|| differences.concat())
}

fn compare(path: &str, real: &Value, embedded: &Value, differences: &mut Vec<String>) {
    match (real, embedded) {
        (Value::Object(one), Value::Object(other)) => {
            let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let at =
                    |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
                compare(&format!("{path}.{key}"), &at(one), &at(other), differences);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{index}]"), one, other, differences);
            }
        }
        _ if real == embedded || differs_on_purpose(real, embedded) => {}
        _ => differences.push(format!("    {path}\n      real     {real}\n      embedded {embedded}\n")),
    }
}

/// Texts that differ and mean the same. Each stands in docs/reference/embedded-plane.md with its reason.
const ON_PURPOSE: [(&str, &str); 8] = [
    (
        "the server rejected our request due to an error in our request",
        "the server rejected our request due to an error in our request: ",
    ),
    (": json: cannot unmarshal ", ": json: cannot unmarshal "),
    (": parsing time ", ": parsing time "),
    (": StorageError: invalid object, Code: ", ": Precondition failed: UID in precondition: "),
    (": illegal base64 data ", ": json: cannot unmarshal "),
    (": error decoding from json: illegal base64 data ", ": json: cannot unmarshal "),
    (": invalid data, expected int, got float64 ", ": 'no such overload': "),
    ("patch: Invalid value: ", "patch: Invalid value: "),
];

/// Whether both say the same up to words that stand for each other.
fn differs_on_purpose(real: &Value, embedded: &Value) -> bool {
    let (Some(real), Some(embedded)) = (real.as_str(), embedded.as_str()) else { return false };
    // Fields that nobody knows, in the order of the document or of the alphabet.
    let fields = |text: &str| {
        let (before, unknown) = text.split_once("strict decoding error: ")?;
        let mut unknown: Vec<String> = unknown.split(", ").map(str::to_owned).collect();
        unknown.sort();
        Some((before.to_owned(), unknown))
    };
    if fields(real).is_some() && fields(real) == fields(embedded) {
        return true;
    }
    ON_PURPOSE.iter().any(|(theirs, ours)| match (real.split_once(theirs), embedded.split_once(ours)) {
        (Some((real, _)), Some((embedded, _))) => real == embedded,
        _ => false,
    })
}

/// Puts words in place of what no two planes have in common.
fn normalise(value: &mut Value) {
    match value {
        Value::Object(object) => {
            // No client can tell the one from the other.
            if object.get("details") == Some(&serde_json::json!({})) {
                object.remove("details");
            }
            // Upstream tells some mistakes once for each check that finds them.
            if let Some(Value::Array(causes)) = object.get_mut("causes") {
                let mut kept: Vec<Value> = Vec::new();
                causes.retain(|cause| !kept.contains(cause) && (kept.push(cause.clone()), true).1);
                // And those of one object in the order of chance.
                causes.sort_by_key(Value::to_string);
            }
            if object.get("field") == Some(&"patch".into())
                && let Some(Value::String(message)) = object.get_mut("message")
            {
                without_object(message);
            }
            for (key, value) in object.iter_mut() {
                match (key.as_str(), &value) {
                    (
                        "uid" | "resourceVersion" | "creationTimestamp" | "deletionTimestamp" | "time",
                        Value::String(text),
                    ) if !text.is_empty() => {
                        *value = format!("some {key}").into();
                    }
                    _ => normalise(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::String(text) => *text = in_any_order(&without_revision(&without_identities(text))),
        _ => {}
    }
}

/// What a patch has made of an object is shown with revisions and times in it, and what is wrong with it comes after.
fn without_object(message: &mut String) {
    let what = match message.split_once("strict decoding error: ") {
        Some((_, what)) => what,
        None => "cannot be read",
    };
    *message = format!("Invalid value: some object: {what}");
}

/// What is wrong with an applied object is told by the real plane in the order of chance, and nothing more once it has
/// come to a field that nobody knows.
fn in_any_order(text: &str) -> String {
    const UNKNOWN: &str = ": field not declared in schema";
    let Some((before, wrong)) = text.split_once("typed patch object (") else { return text.to_owned() };
    let Some((object, wrong)) = wrong.split_once("): ") else { return text.to_owned() };
    let sorted = |line: &str| match line.trim().split_once(", got ") {
        Some((expected, _)) => format!("{expected}, got something else"),
        None => line.trim().to_owned(),
    };
    let mut lines: Vec<String> = wrong.trim_start_matches("errors:").lines().map(sorted).collect();
    lines.retain(|line| !line.is_empty());
    lines.sort();
    if lines.iter().any(|line| line.ends_with(UNKNOWN)) {
        lines = vec![format!("some{UNKNOWN}")];
    }
    format!("{before}typed patch object ({object}): {}", lines.join("\n"))
}

/// A text without the revision of what is stored.
fn without_revision(text: &str) -> String {
    const BEFORE: &str = "the ResourceVersion in record (";
    match text.split_once(BEFORE) {
        Some((before, rest)) => {
            format!("{before}{BEFORE}some{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => text.to_owned(),
    }
}

/// Takes fields away, and who manages them.
fn leave_alone(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(object) => {
            object.retain(|key, _| !names.contains(&key.strip_prefix("f:").unwrap_or(key)));
            object.values_mut().for_each(|value| leave_alone(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| leave_alone(item, names)),
        _ => {}
    }
}

/// A text without the UIDs in it.
fn without_identities(text: &str) -> String {
    const LENGTH: usize = 36;
    let is_uid = |part: &str| {
        part.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        match rest.get(..LENGTH) {
            Some(part) if is_uid(part) => {
                out.push_str("some uid");
                rest = &rest[LENGTH..];
            }
            _ => {
                out.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    out
}
