//! Parts of variables by path: `servers[0].name`.

use serde_json::Value;
use std::collections::BTreeMap;

/// Why a path leads to no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Brackets without an index.
    #[error("path {0:?} of a variable is invalid: an index must be a number in brackets, as in servers[0]")]
    Syntax(String),
    /// There is no such variable, or no such field in it.
    #[error("variable {path:?} does not exist: there is no {segment:?}")]
    NotFound {
        /// The whole path.
        path: String,
        /// The part that does not exist.
        segment: String,
    },
    /// An index into another value than a list.
    #[error("variable {path:?} is invalid: {segment:?} is not a list")]
    NotAList {
        /// The whole path.
        path: String,
        /// The part that is not a list.
        segment: String,
    },
    /// The list is shorter.
    #[error("variable {path:?} is invalid: the list has no index {index}")]
    NoIndex {
        /// The whole path.
        path: String,
        /// The index.
        index: usize,
    },
}

/// The value at a path of names with dots, each with at most one index.
///
/// # Errors
/// If the path is invalid, or leads nowhere.
pub(crate) fn lookup<'a>(
    variables: &'a BTreeMap<String, Value>,
    path: &str,
) -> Result<&'a Value, LookupError> {
    let mut found: Option<&Value> = None;
    for segment in path.split('.') {
        let (name, index) = parse(segment).ok_or_else(|| LookupError::Syntax(path.to_string()))?;
        let next = match found {
            None => variables.get(name),
            Some(value) => value.get(name),
        };
        let not_found = || LookupError::NotFound { path: path.to_string(), segment: name.to_string() };
        let mut value = next.ok_or_else(not_found)?;
        if let Some(index) = index {
            let not_a_list = || LookupError::NotAList { path: path.to_string(), segment: name.to_string() };
            let items = value.as_array().ok_or_else(not_a_list)?;
            value = items.get(index).ok_or_else(|| LookupError::NoIndex { path: path.to_string(), index })?;
        }
        found = Some(value);
    }
    found.ok_or_else(|| LookupError::Syntax(path.to_string()))
}

/// Name and index of a segment. What follows the bracket is ignored, as upstream does.
fn parse(segment: &str) -> Option<(&str, Option<usize>)> {
    match (segment.find('['), segment.find(']')) {
        (None, None) => Some((segment, None)),
        (Some(start), Some(end)) => {
            Some((&segment[..start], Some(segment.get(start + 1..end)?.parse().ok()?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_parts_of_variables() {
        let variables = BTreeMap::from([
            ("plain".to_string(), json!("x")),
            ("list".to_string(), json!([{"a": [1, 2]}, "b"])),
            ("null".to_string(), Value::Null),
        ]);
        for (path, expected) in [
            ("plain", Some(json!("x"))),
            ("null", Some(Value::Null)),
            ("list[0].a[1]", Some(json!(2))),
            ("list[1]", Some(json!("b"))),
            ("list[2]", None),
            ("list[0].b", None),
            ("plain.x", None),
            ("plain[0]", None),
            ("list[", None),
            ("list[x]", None),
            ("list[-1]", None),
            ("list]0[", None),
            ("none", None),
            ("", None),
        ] {
            assert_eq!(lookup(&variables, path).ok().cloned(), expected, "{path}");
        }
    }
}
