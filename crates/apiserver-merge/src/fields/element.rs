//! One element of a path: a field by name, or an item of a list by its keys, its value or its index.

use super::FieldsError;
use crate::gotext;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::fmt;

/// One element of a path.
#[derive(Clone, Debug)]
pub enum Element {
    /// A field of an object.
    Field(String),
    /// The item of a list whose key fields have these values, sorted by name.
    Key(Vec<(String, Value)>),
    /// The item of a set with this value.
    Value(Value),
    /// The item of a list at this index.
    Index(i64),
}

impl Element {
    /// The element of a field.
    pub fn field(name: impl Into<String>) -> Element {
        Element::Field(name.into())
    }

    pub(crate) fn key(mut fields: Vec<(String, Value)>) -> Element {
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Element::Key(fields)
    }

    /// The key under which `fieldsV1` keeps it: `f:name`, `k:{"name":"x"}`, `v:"x"`, `i:0`.
    pub(crate) fn to_v1(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), gotext::json(value)));
                format!("k:{{{}}}", fields.collect::<Vec<_>>().join(","))
            }
            Element::Value(value) => format!("v:{}", gotext::json(value)),
            Element::Index(index) => format!("i:{index}"),
        }
    }

    /// The element a key of `fieldsV1` stands for; `None` for kinds that a later version may know.
    pub(crate) fn from_v1(key: &str) -> Result<Option<Element>, FieldsError> {
        let unreadable = || FieldsError::Element(key.to_string());
        let (kind, rest) = key.split_once(':').filter(|(kind, _)| kind.len() == 1).ok_or_else(unreadable)?;
        Ok(Some(match kind {
            "f" => Element::Field(rest.to_string()),
            "v" => Element::Value(serde_json::from_str(rest).map_err(|_| unreadable())?),
            "k" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| unreadable())?;
                Element::key(fields.into_iter().collect())
            }
            "i" => Element::Index(rest.parse().map_err(|_| unreadable())?),
            _ => return Ok(None),
        }))
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        match (self, other) {
            (Element::Field(a), Element::Field(b)) => a.cmp(b),
            (Element::Key(a), Element::Key(b)) => {
                let pairs = a.iter().zip(b);
                let mut orders = pairs.map(|((a, x), (b, y))| a.cmp(b).then_with(|| gotext::compare(x, y)));
                orders.find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
            }
            (Element::Value(a), Element::Value(b)) => gotext::compare(a, b),
            (Element::Index(a), Element::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

/// The form in a conflict message: `.name`, `[name="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}={}", gotext::shown(value)));
                write!(f, "[{}]", fields.collect::<Vec<_>>().join(","))
            }
            Element::Value(value) => write!(f, "[={}]", gotext::shown(value)),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}
