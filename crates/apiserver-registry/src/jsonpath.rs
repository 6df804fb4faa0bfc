//! JSONPath in kubectl's dialect, as far as printer columns use it: fields with `\.` escapes, quoted
//! fields, indexes, wildcards, slices left out, and filters that compare a field with a literal.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Field(String),
    Index(i64),
    All,
    Filter { path: JsonPath, operator: Operator, literal: Value },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A parsed path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonPath(Vec<Segment>);

impl JsonPath {
    /// A path of plain fields.
    pub fn of(fields: &[&str]) -> Self {
        Self(fields.iter().map(|field| Segment::Field((*field).to_owned())).collect())
    }

    /// Reads a path, with or without its leading dot or braces; the reason if it cannot.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().trim_start_matches('{').trim_end_matches('}');
        let mut steps = Vec::new();
        let mut rest = text.strip_prefix('$').or_else(|| text.strip_prefix('@')).unwrap_or(text);
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let end = closing(inner).ok_or_else(|| format!("unterminated array in {text:?}"))?;
                steps.push(bracket(&inner[..end])?);
                rest = &inner[end + 1..];
            } else {
                let (field, left) = field(rest.strip_prefix('.').unwrap_or(rest));
                match field.as_str() {
                    "" => {}
                    "*" => steps.push(Segment::All),
                    _ => steps.push(Segment::Field(field)),
                }
                rest = left;
            }
        }
        Ok(Self(steps))
    }

    /// Everything the path leads to.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.take(value)).collect();
        }
        found
    }

    /// The first thing the path leads to.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.find(value).into_iter().next()
    }
}

impl Segment {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(map)) => map.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { len + index } else { *index };
                usize::try_from(index).ok().and_then(|index| items.get(index)).into_iter().collect()
            }
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(map)) => map.values().collect(),
            (Self::Filter { path, operator, literal }, Value::Array(items)) => {
                let holds =
                    |item: &&Value| path.first(item).is_some_and(|found| operator.holds(found, literal));
                items.iter().filter(holds).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Operator {
    fn holds(self, found: &Value, literal: &Value) -> bool {
        let order = match (found, literal) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ => found.as_f64().zip(literal.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)),
        };
        match self {
            Self::Exists => true,
            Self::Equal => found == literal,
            Self::NotEqual => found != literal,
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Self::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Self::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

/// A field and what follows it. A backslash takes the next character as it is.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[at..]),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Where the bracket that is open ends.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Result<Segment, String> {
    let inner = inner.trim();
    if inner == "*" {
        return Ok(Segment::All);
    }
    if let Some(name) = unquoted(inner) {
        return Ok(Segment::Field(name.to_owned()));
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        return comparison(filter);
    }
    inner.parse().map(Segment::Index).map_err(|_| format!("invalid array index {inner}"))
}

fn comparison(filter: &str) -> Result<Segment, String> {
    use Operator::{Equal, Exists, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let signs = [
        ("==", Equal),
        ("!=", NotEqual),
        ("<=", LessOrEqual),
        (">=", GreaterOrEqual),
        ("<", Less),
        (">", Greater),
    ];
    for (sign, operator) in signs {
        if let Some((left, right)) = filter.split_once(sign) {
            let right = right.trim();
            let literal = match unquoted(right) {
                Some(text) => text.into(),
                None => {
                    serde_json::from_str(right).map_err(|_| format!("cannot read {right} in a filter"))?
                }
            };
            return Ok(Segment::Filter { path: JsonPath::parse(left.trim())?, operator, literal });
        }
    }
    Ok(Segment::Filter { path: JsonPath::parse(filter.trim())?, operator: Exists, literal: Value::Null })
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_as_crds_write_them() {
        let object = json!({
            "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "c"}, "annotations": {"a.b": "x"}},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}],
                "addresses": [{"address": "1"}, {"address": "2"}], "n": [1, 5, 9],
            },
        });
        let cases = [
            (r".metadata.labels.cluster\.x-k8s\.io/cluster-name", vec![json!("c")]),
            (".metadata.annotations['a.b']", vec![json!("x")]),
            (r#".status.conditions[?(@.type=="Ready")].status"#, vec![json!("True")]),
            (".status.conditions[?(@.type=='Other')].status", vec![json!("False")]),
            (".status.conditions[?(@.type == 'None')].status", vec![]),
            (".status.conditions[?(@.type != 'Ready')].type", vec![json!("Other")]),
            (".status.addresses[*].address", vec![json!("1"), json!("2")]),
            (".status.addresses[0].address", vec![json!("1")]),
            ("{.status.addresses[-1].address}", vec![json!("2")]),
            (".status.n[?(@>4)]", vec![json!(5), json!(9)]),
            (".status.absent.deep", vec![]),
        ];
        for (path, expected) in cases {
            let found: Vec<Value> =
                JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect();
            assert_eq!(found, expected, "{path}");
        }
        assert!(JsonPath::parse(".a[").is_err());
    }
}
