//! Label and field selectors: the whole label grammar, and the fields a resource declares.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    object,
    status::{ApiError, Result},
};

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, BTreeSet<String>),
    /// Also matches objects without the label.
    NotIn(String, BTreeSet<String>),
    Greater(String, i64),
    Less(String, i64),
}

/// A label selector: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Reads the text of a query.
    pub fn parse(text: &str) -> Result<Self> {
        let mut tokens = tokens(text);
        let mut requirements = Vec::new();
        let wrong = |detail: String| ApiError::bad_request(format!("unable to parse requirement: {detail}"));
        tokens.reverse();
        while let Some(token) = tokens.pop() {
            let requirement = if token == "!" {
                Requirement::Absent(label_key(tokens.pop())?)
            } else {
                let key = label_key(Some(token))?;
                let operator = tokens.pop();
                match operator.as_deref() {
                    None => Requirement::Exists(key),
                    Some(",") => {
                        tokens.push(",".to_owned());
                        Requirement::Exists(key)
                    }
                    Some("=" | "==") => Requirement::In(key, [exact(&mut tokens)].into()),
                    Some("!=") => Requirement::NotIn(key, [exact(&mut tokens)].into()),
                    Some("in") => Requirement::In(key, values(&mut tokens).map_err(wrong)?),
                    Some("notin") => Requirement::NotIn(key, values(&mut tokens).map_err(wrong)?),
                    Some(sign @ (">" | "<")) => {
                        let value = exact(&mut tokens);
                        let number = value.parse().map_err(|_| {
                            wrong(format!("values[0][{key}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"))
                        })?;
                        if sign == ">" {
                            Requirement::Greater(key, number)
                        } else {
                            Requirement::Less(key, number)
                        }
                    }
                    Some(found) => {
                        return Err(wrong(format!(
                            "found '{found}', expected: in, notin, =, ==, !=, gt, lt"
                        )));
                    }
                }
            };
            requirements.push(requirement);
            match tokens.pop().as_deref() {
                None => break,
                Some(",") if !tokens.is_empty() => {}
                Some(found) => {
                    let detail = format!("found '{found}', expected: ',' or 'end of string'");
                    return Err(ApiError::bad_request(detail));
                }
            }
        }
        Ok(Self(requirements))
    }

    /// Reads a selector as objects hold it, with `matchLabels` and `matchExpressions`; nothing if it is none.
    /// Without either, or without a selector, everything matches.
    pub fn of(written: &Value) -> Option<Self> {
        let mut requirements = Vec::new();
        for (key, value) in written.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements.push(Requirement::In(key.clone(), [value.as_str()?.to_owned()].into()));
        }
        let expressions = written.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let key = object::text(expression, &["key"]).to_owned();
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values: BTreeSet<String> = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(match object::text(expression, &["operator"]) {
                "In" if !values.is_empty() => Requirement::In(key, values),
                "NotIn" if !values.is_empty() => Requirement::NotIn(key, values),
                "Exists" if values.is_empty() => Requirement::Exists(key),
                "DoesNotExist" if values.is_empty() => Requirement::Absent(key),
                _ => return None,
            });
        }
        Some(Self(requirements))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it selects an object.
    pub fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object::at(object, &["metadata", "labels", key]).and_then(Value::as_str);
        self.0.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
            Requirement::In(key, values) => label(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|value| !values.contains(value)),
            Requirement::Greater(key, than) => number(label(key)).is_some_and(|value| value > *than),
            Requirement::Less(key, than) => number(label(key)).is_some_and(|value| value < *than),
        })
    }
}

fn number(label: Option<&str>) -> Option<i64> {
    label?.parse().ok()
}

fn label_key(token: Option<String>) -> Result<String> {
    let token = token.unwrap_or_default();
    let name = token.rsplit('/').next().unwrap_or_default();
    let ok = !name.is_empty()
        && name.len() <= 63
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if ok {
        return Ok(token);
    }
    Err(ApiError::bad_request(format!(
        "unable to parse requirement: <nil>: Invalid value: {token:?}: name part must consist of alphanumeric \
         characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    )))
}

/// The value after `=`, which may be empty.
fn exact(tokens: &mut Vec<String>) -> String {
    match tokens.pop() {
        Some(comma) if comma == "," => {
            tokens.push(comma);
            String::new()
        }
        value => value.unwrap_or_default(),
    }
}

/// The values in parentheses; an empty place is an empty value.
fn values(tokens: &mut Vec<String>) -> Result<BTreeSet<String>, String> {
    let mut values = BTreeSet::new();
    if tokens.pop().as_deref() != Some("(") {
        return Err("expected: '('".to_owned());
    }
    let mut pending = String::new();
    loop {
        match tokens.pop().as_deref() {
            Some(")") => {
                values.insert(pending);
                return Ok(values);
            }
            Some(",") => {
                values.insert(std::mem::take(&mut pending));
            }
            Some(value) => value.clone_into(&mut pending),
            None => return Err("expected: ',', ')' or identifier".to_owned()),
        }
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() || "=!,()<>".contains(c) {
            if !word.is_empty() {
                tokens.push(std::mem::take(&mut word));
            }
            match c {
                '=' | '!' if chars.next_if_eq(&'=').is_some() => tokens.push(format!("{c}=")),
                c if c.is_whitespace() => {}
                c => tokens.push(c.to_string()),
            }
        } else {
            word.push(c);
        }
    }
    if !word.is_empty() {
        tokens.push(word);
    }
    tokens
}

/// A field selector: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<(String, bool, String)>);

impl FieldSelector {
    /// Reads the text of a query. Which fields there are is the resource's business: see [`Self::fields`].
    pub fn parse(text: &str) -> Result<Self> {
        let mut terms = Vec::new();
        for term in split_unescaped(text) {
            let wrong =
                || ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"));
            let (field, equal, value) = match (term.split_once("!="), term.split_once("==")) {
                (Some((field, value)), _) => (field, false, value),
                (None, Some((field, value))) => (field, true, value),
                (None, None) => term.split_once('=').map(|(f, v)| (f, true, v)).ok_or_else(wrong)?,
            };
            terms.push((
                field.to_owned(),
                equal,
                value.replace("\\,", ",").replace("\\=", "=").replace("\\\\", "\\"),
            ));
        }
        Ok(Self(terms))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields it names.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(field, _, _)| field.as_str())
    }

    /// The value that a field must have, if it must have one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|(name, equal, _)| *equal && name == field).map(|(_, _, value)| value.as_str())
    }

    /// Whether the fields, looked up with `field`, are as asked; an absent field is the empty text.
    pub fn matches(&self, field: impl Fn(&str) -> String) -> bool {
        self.0.iter().all(|(name, equal, value)| (field(name) == *value) == *equal)
    }
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
        } else if let Some(term) = terms.last_mut() {
            term.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    terms.retain(|term| !term.is_empty());
    terms
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(selector: &str, labels: &Value) -> bool {
        LabelSelector::parse(selector).unwrap().matches(&json!({"metadata": {"labels": labels}}))
    }

    #[test]
    fn the_label_grammar() {
        let labels = || json!({"a": "1", "b.c/d": "x", "empty": ""});
        for selector in [
            "",
            "a",
            "a=1",
            "a==1",
            "a = 1",
            "a in (1,2)",
            "a in(2 , 1)",
            "a notin (2)",
            "z notin (2)",
            "z!=1",
            "!z",
            "a,!z",
            "b.c/d=x,a=1",
            "a>0",
            "a<2",
            "empty=",
            "empty in ()",
            "empty in (,x)",
            "empty=,a=1",
        ] {
            assert!(matches(selector, &labels()), "{selector}");
        }
        for selector in ["z", "a=2", "a!=1", "a in (2)", "a notin (1,2)", "!a", "a=1,z", "a>1", "z=", "z>0"] {
            assert!(!matches(selector, &labels()), "{selector}");
        }
        for selector in ["a in 1", "a=1 b=2", ",", "a,", "a in (1", "=1", "a x"] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector}");
        }
    }

    #[test]
    fn field_terms() {
        let matches = |selector: &str| FieldSelector::parse(selector).unwrap().matches(|f| format!("v-{f}"));
        assert!(matches("metadata.name=v-metadata.name"));
        assert!(matches("a==v-a,b!=x"));
        assert!(!matches("a!=v-a"));
        assert!(FieldSelector::parse("nonsense").is_err());
    }
}
