//! The `fieldPath` of a rule and the `jsonPath` of a selectable field: JSON paths of field names and map keys that the
//! schema must contain.

use serde_json::Value;

use crate::path::{child, key};
use crate::raw::{Raw, RawAdditional};

/// The schema of the field at a JSON path; [`Value::Null`] if the schema does not describe it.
///
/// # Errors
/// Why the path is invalid, or does not refer to a field.
pub fn field_at<'a>(schema: &'a Value, json_path: &str) -> Result<&'a Value, String> {
    if json_path.contains('[') {
        return Err("array notation is not allowed".into());
    }
    let (_, field) = follow(json_path, Raw::new(schema))?;
    Ok(field.map_or(&Value::Null, Raw::written))
}

/// The path as it is appended to the path of the value.
pub(crate) fn resolve(json_path: &str, schema: Raw<'_>) -> Result<String, String> {
    follow(json_path, schema).map(|(path, _)| path)
}

fn follow<'a>(json_path: &str, schema: Raw<'a>) -> Result<(String, Option<Raw<'a>>), String> {
    let mut rest = json_path;
    let mut schema = Some(schema);
    let mut path = String::new();
    while !rest.is_empty() {
        let (name, tail) = segment(rest)?;
        let unknown = "does not refer to a valid field".to_string();
        let current = schema.ok_or(unknown.clone())?;
        if current.has_properties() {
            path = child(&path, &name);
            schema = Some(current.property(&name).ok_or(unknown)?);
        } else {
            path = key(&path, &name);
            schema = match current.additional().ok_or(unknown)? {
                RawAdditional::Schema(schema) => Some(schema),
                RawAdditional::Allowed(_) => None,
            };
        }
        rest = tail;
    }
    Ok((path, schema))
}

/// The first `.name` or `['key']` of a path and what follows it.
fn segment(path: &str) -> Result<(String, &str), String> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        if end == 0 {
            return Err("unexpected end of JSON path".into());
        }
        return Ok((rest[..end].to_string(), &rest[end..]));
    }
    let Some(rest) = path.strip_prefix("['") else {
        let end = path.find(['.', '[', ']']).unwrap_or(path.len());
        return Err(format!("expected [ or . but got: {}", &path[..end]));
    };
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                let tail = rest[at + 1..].strip_prefix(']');
                return tail.map(|tail| (name, tail)).ok_or_else(|| "expected ]".to_string());
            }
            '\\' => name.push(unescape(chars.next().map(|(_, c)| c))?),
            c => name.push(c),
        }
    }
    Err("unexpected end of JSON path".into())
}

fn unescape(directive: Option<char>) -> Result<char, String> {
    Ok(match directive {
        Some('a') => '\u{7}',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('v') => '\u{b}',
        Some(c @ ('\'' | '\\')) => c,
        Some(other) => return Err(format!("invalid escape char \\{other}")),
        None => return Err("unexpected end of JSON path".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_follow_the_schema() {
        let schema = json!({"properties": {"a.b": {"additionalProperties": {"type": "string"}}, "c": {}}});
        let resolve = |path| resolve(path, Raw::new(&schema));
        assert_eq!(resolve(".c").as_deref(), Ok("c"));
        assert_eq!(resolve(r"['a.b']['it\'s']").as_deref(), Ok("a.b[it's]"));
        assert!(resolve(".d").is_err());
        assert!(resolve("c").is_err());
        assert!(resolve("['c'").is_err());
    }
}
