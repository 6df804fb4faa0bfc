//! Label selectors: whether they are valid, what they match, and their text.

use crate::object;
use capstan_topology::validation::words::{is_key, is_label};
use capstan_topology::{FieldError, field};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A label selector, valid or not.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Selector {
    pub(crate) match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

/// The selector at a path of an object that has passed the schema.
pub(crate) fn read(object: &Value, path: &[&str]) -> Selector {
    object::at(object, path).and_then(|selector| Selector::deserialize(selector).ok()).unwrap_or_default()
}

/// All errors of a selector.
pub(crate) fn errors(selector: &Selector, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = field::child(at, "matchLabels");
    for (key, value) in selector.match_labels.iter() {
        errors.extend(wrong_key(key, &path));
        errors.extend(wrong_value(value, &field::entry(&path, key)));
    }
    for (i, expression) in selector.match_expressions.iter().enumerate() {
        let at = field::entry(&field::child(at, "matchExpressions"), i);
        errors.extend(wrong_key(&expression.key, &field::child(&at, "key")));
        errors.extend(wrong_operator(expression, &at));
        for value in expression.values.iter() {
            errors.extend(wrong_value(value, &field::child(&at, "values")));
        }
    }
    errors
}

fn wrong_key(key: &str, at: &str) -> Option<FieldError> {
    (!is_key(key)).then(|| field::invalid(at, key, "the key of a label must be a qualified name"))
}

fn wrong_value(value: &str, at: &str) -> Option<FieldError> {
    let why = "the value of a label has at most 63 letters, digits, '-', '_' and '.'";
    (!value.is_empty() && !is_label(value)).then(|| field::invalid(at, value, why))
}

fn wrong_operator(expression: &Requirement, at: &str) -> Option<FieldError> {
    let has_values = !expression.values.is_empty();
    let values = field::child(at, "values");
    match expression.operator.as_str() {
        "In" | "NotIn" => (!has_values).then(|| field::required(&values, "In and NotIn need values")),
        "Exists" | "DoesNotExist" => {
            has_values.then(|| field::forbidden(&values, "Exists and DoesNotExist take no values"))
        }
        other => {
            let why = "must be In, NotIn, Exists or DoesNotExist";
            Some(field::invalid(&field::child(at, "operator"), other, why))
        }
    }
}

/// Whether a valid selector matches labels.
pub(crate) fn matches(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    let mut equal = selector.match_labels.iter();
    let mut expressions = selector.match_expressions.iter();
    equal.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| {
            let label = labels.get(&expression.key);
            let is_listed = label.is_some_and(|label| expression.values.contains(label));
            match expression.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => label.is_some(),
                _ => label.is_none(),
            }
        })
}

/// The text of a selector, as in `kubectl get --selector`.
pub(crate) fn text(selector: &Selector) -> String {
    let equal = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().map(|expression| {
        let key = &expression.key;
        let values = expression.values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match expression.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            _ => format!("!{key}"),
        }
    });
    equal.chain(expressions).collect::<Vec<_>>().join(",")
}

/// Whether a selector of any shape has no requirement.
pub(crate) fn is_empty(selector: Option<&Value>) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        other => other.is_null(),
    };
    let fields = ["matchLabels", "matchExpressions"];
    selector.is_none_or(|selector| fields.iter().all(|field| selector.get(field).is_none_or(is_empty)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selector(value: Value) -> Selector {
        serde_json::from_value(value).expect("a selector")
    }

    #[test]
    fn wrong_selectors_are_rejected_at_the_field() {
        for (value, paths) in [
            (json!({}), vec![]),
            (json!({"matchLabels": {"a": "b", "x.io/y": ""}}), vec![]),
            (json!({"matchLabels": {"-a": "b"}}), vec!["s.matchLabels"]),
            (json!({"matchLabels": {"a": "b c"}}), vec!["s.matchLabels[a]"]),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}), vec![]),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                vec!["s.matchExpressions[0].values"],
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": []}]}),
                vec!["s.matchExpressions[0].values"],
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
                vec!["s.matchExpressions[0].values"],
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
                vec!["s.matchExpressions[0].operator"],
            ),
            (
                json!({"matchExpressions": [
                    {"key": "a", "operator": "Exists"}, {"key": "?", "operator": "In", "values": ["-"]},
                ]}),
                vec!["s.matchExpressions[1].key", "s.matchExpressions[1].values"],
            ),
        ] {
            let found = errors(&selector(value.clone()), "s");
            let found: Vec<&str> = found.iter().map(|error| error.path.as_str()).collect();
            assert_eq!(found, paths, "{value}");
        }
    }

    #[test]
    fn selectors_match_as_in_kubernetes() {
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let of = |operator: &str, key: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (value, expected, shown) in [
            (json!({}), true, ""),
            (json!({"matchLabels": {"a": "b"}}), true, "a=b"),
            (json!({"matchLabels": {"a": "c"}}), false, "a=c"),
            (json!({"matchLabels": {"c": ""}}), false, "c="),
            (of("In", "a", &["b", "c"]), true, "a in (b,c)"),
            (of("In", "c", &["b"]), false, "c in (b)"),
            (of("NotIn", "a", &["b"]), false, "a notin (b)"),
            (of("NotIn", "c", &["b"]), true, "c notin (b)"),
            (of("Exists", "a", &[]), true, "a"),
            (of("DoesNotExist", "a", &[]), false, "!a"),
        ] {
            let selector = selector(value);
            assert_eq!(matches(&selector, &labels), expected, "{shown}");
            assert_eq!(text(&selector), shown);
        }
    }
}
