//! The value that a rule sees: the fields in the schema, under escaped names, with dates, durations, bytes and numbers
//! of the right type. Fields that are not in the schema can be compared as a whole but not accessed.

use super::names::escape;
use crate::formats;
use crate::gotext;
use crate::node::{ListType, Node, Type};
use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map, Opaque};
use serde_json::{Map as Fields, Value};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Something a rule can only compare.
#[derive(Debug, PartialEq, Eq)]
struct Sealed(Value);

impl Opaque for Sealed {
    fn runtime_type_name(&self) -> &str {
        "dev.capstan.sealed"
    }
}

/// The key, no identifier, under which a sorted copy keeps what a rule cannot name, so that it still counts when
/// two objects are compared.
const REST: &str = "\0rest";

static TEXT: LazyLock<Node> = LazyLock::new(|| Node { ty: Some(Type::String), ..Node::default() });
static NAMES: LazyLock<Node> = LazyLock::new(|| {
    let text = || Node { ty: Some(Type::String), ..Node::default() };
    Node {
        ty: Some(Type::Object),
        properties: [("name".into(), text()), ("generateName".into(), text())].into(),
        ..Node::default()
    }
});

/// Converts values for rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Put sets and maps of lists in one order, for comparing them.
    pub(super) sorted: bool,
}

impl View {
    /// `value` of schema `node`; `resource` if it is an object with `apiVersion`, `kind` and `metadata`.
    pub(super) fn of(self, node: &Node, value: &Value, resource: bool) -> Cel {
        match (node.ty, value) {
            (_, Value::Null) if node.nullable => Cel::Null,
            (_, Value::Null) => sealed(value),
            (_, Value::String(text)) if node.int_or_string => string(text),
            (_, Value::Number(number)) if node.int_or_string => {
                number.as_i64().map_or(sealed(value), Cel::Int)
            }
            _ if node.int_or_string => sealed(value),
            (Some(Type::Object), Value::Object(fields)) => {
                self.object(node, fields, resource || node.embedded)
            }
            (Some(Type::Array), Value::Array(items)) => self.list(node, items),
            (Some(Type::String), Value::String(text)) => formatted(&node.limits.format, text),
            (Some(Type::Number), Value::Number(number)) => Cel::Float(gotext::Num::of(number).as_f64()),
            (Some(Type::Integer), Value::Number(number)) => number.as_i64().map_or(sealed(value), Cel::Int),
            (Some(Type::Boolean), Value::Bool(flag)) => Cel::Bool(*flag),
            _ => sealed(value),
        }
    }

    fn object(self, node: &Node, fields: &Fields<String, Value>, resource: bool) -> Cel {
        let mut seen = HashMap::with_capacity(fields.len());
        let mut rest = Fields::new();
        for (name, value) in fields {
            let property = match name.as_str() {
                "apiVersion" | "kind" if resource => Some(&*TEXT),
                "metadata" if resource => Some(&*NAMES),
                name => node.properties.get(name),
            };
            if let Some((property, escaped)) = property.zip(escape(name)).filter(|_| !value.is_null()) {
                seen.insert(key(escaped), self.of(property, value, false));
            } else if let Some(entry) = node.additional_schema() {
                seen.insert(key(name.clone()), self.of(entry, value, false));
            } else {
                rest.insert(name.clone(), value.clone());
            }
        }
        if self.sorted && !rest.is_empty() {
            seen.insert(key(REST.into()), sealed(&Value::Object(rest)));
        }
        Cel::Map(Map { map: Arc::new(seen) })
    }

    fn list(self, node: &Node, items: &[Value]) -> Cel {
        let Some(schema) = &node.items else { return sealed(&Value::from(items)) };
        let mut order: Vec<&Value> = items.iter().collect();
        if self.sorted {
            match node.list_type {
                ListType::Atomic => {}
                ListType::Set => order.sort_by_cached_key(|item| gotext::json(item)),
                ListType::Map => order.sort_by_cached_key(|item| {
                    let keys = node.list_map_keys.iter().map(|key| item.get(key).map(gotext::json));
                    keys.collect::<Vec<_>>()
                }),
            }
        }
        Cel::List(Arc::new(order.into_iter().map(|item| self.of(schema, item, false)).collect()))
    }
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

fn string(text: &str) -> Cel {
    Cel::String(Arc::new(text.to_string()))
}

fn sealed(value: &Value) -> Cel {
    Cel::Opaque(Arc::new(Sealed(value.clone())))
}

/// A string, as the type its format stands for.
fn formatted(format: &str, text: &str) -> Cel {
    let read = match format {
        "date" | "date-time" => formats::timestamp(format, text).map(Cel::Timestamp),
        "duration" => {
            formats::duration(text).map(|nanos| Cel::Duration(chrono::Duration::nanoseconds(nanos)))
        }
        "byte" => base64(text).map(|bytes| Cel::Bytes(Arc::new(bytes))),
        _ => return string(text),
    };
    read.unwrap_or_else(|| sealed(&Value::from(text)))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            // The low eight bits are what is meant.
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_decoded() {
        assert_eq!(base64("YWI="), Some(b"ab".to_vec()));
        assert_eq!(base64("YWJj"), Some(b"abc".to_vec()));
        assert_eq!(base64("Y*"), None);
    }
}
