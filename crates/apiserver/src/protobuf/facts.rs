//! Which fields messages have. See `data/README.md` for where the facts are from.

use std::{collections::HashMap, sync::OnceLock};

use serde::Deserialize;

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    Text,
    Bytes,
    Bool,
    Signed,
    Unsigned,
    Double,
    /// A nested message.
    Message(String),
    List(Box<FieldType>),
    /// A map with string keys.
    Map(Box<FieldType>),
    /// A list that is encoded as a message with one field, because it is in another list or map.
    Nested(Box<FieldType>),
    /// A type with its own JSON representation.
    Special(Special),
}

/// What has a form of its own in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Special {
    /// A timestamp in seconds.
    Time,
    /// A timestamp in microseconds.
    MicroTime,
    Duration,
    /// JSON, unchanged.
    Raw,
    Quantity,
    IntOrString,
    /// The value of the field that is set in this message.
    OneOf(String),
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// In JSON; empty if the fields of the message are written as if they were the parent's.
    pub(super) name: String,
    pub(super) kind: FieldType,
    /// Whether the zero value stands for nothing.
    pub(super) drop_zero: bool,
}

/// All facts.
pub(super) struct Facts {
    /// The message of a kind, by apiVersion and kind with a slash between, or by kind alone.
    pub(super) kinds: HashMap<String, String>,
    messages: HashMap<String, Vec<Field>>,
}

impl Facts {
    pub(super) fn get() -> &'static Self {
        static FACTS: OnceLock<Facts> = OnceLock::new();
        FACTS.get_or_init(|| {
            Self::read(include_str!("../../data/kubernetes-protobuf.json"))
                .unwrap_or_else(|| unreachable!("a vendored file, read by every test"))
        })
    }

    fn read(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct File {
            kinds: HashMap<String, String>,
            messages: HashMap<String, Vec<Row>>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Row {
            Flagged(u64, String, String, String),
            Plain(u64, String, String),
        }
        let field = |row: Row| {
            let (number, name, kind, flags) = match row {
                Row::Flagged(number, name, kind, flags) => (number, name, kind, flags),
                Row::Plain(number, name, kind) => (number, name, kind, String::new()),
            };
            Some(Field { number, name, kind: kind_of(&kind)?, drop_zero: flags == "z" })
        };
        let File { kinds, messages } = serde_json::from_str(text).ok()?;
        let messages = messages
            .into_iter()
            .map(|(name, rows)| Some((name, rows.into_iter().map(field).collect::<Option<Vec<_>>>()?)))
            .collect::<Option<_>>()?;
        Some(Self { kinds, messages })
    }

    /// The fields of a message.
    pub(super) fn fields(&self, message: &str) -> &[Field] {
        self.messages.get(message).map_or(&[], Vec::as_slice)
    }
}

fn kind_of(text: &str) -> Option<FieldType> {
    let inner = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(inner) = inner("[[", "]]") {
        return Some(FieldType::Nested(Box::new(kind_of(inner)?)));
    }
    if let Some(inner) = inner("[", "]") {
        return Some(FieldType::List(Box::new(kind_of(inner)?)));
    }
    if let Some(inner) = inner("{", "}") {
        return Some(FieldType::Map(Box::new(kind_of(inner)?)));
    }
    Some(match text {
        "s" => FieldType::Text,
        "b" => FieldType::Bytes,
        "t" => FieldType::Bool,
        "i" => FieldType::Signed,
        "u" => FieldType::Unsigned,
        "d" => FieldType::Double,
        "=Time" => FieldType::Special(Special::Time),
        "=MicroTime" => FieldType::Special(Special::MicroTime),
        "=Duration" => FieldType::Special(Special::Duration),
        "=Raw" => FieldType::Special(Special::Raw),
        "=Quantity" => FieldType::Special(Special::Quantity),
        "=IntOrString" => FieldType::Special(Special::IntOrString),
        text => match text.strip_prefix("=OneOf:") {
            Some(message) => FieldType::Special(Special::OneOf(message.to_owned())),
            None if text.contains('.') => FieldType::Message(text.to_owned()),
            None => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Below, Registry};

    #[test]
    fn every_built_in_kind_has_a_message() {
        let (facts, registry) = (Facts::get(), Registry::built_in());
        let mut kinds = Vec::new();
        for resource in registry.all() {
            for version in &resource.versions {
                kinds.push(format!("{}/{}", resource.api_version(&version.name), resource.kind));
                for below in &version.below {
                    if let Below::Asked(_, asked) = below {
                        kinds.push(format!("{}/{}", asked.stored_version, asked.kind));
                    }
                }
            }
        }
        for kind in kinds {
            let message = facts.kinds.get(&kind).unwrap_or_else(|| panic!("no message for {kind}"));
            assert!(!facts.fields(message).is_empty(), "{message}");
        }
    }

    #[test]
    fn every_message_that_is_referred_to_is_there() {
        let facts = Facts::get();
        let mut open: Vec<FieldType> =
            facts.messages.values().flatten().map(|field| field.kind.clone()).collect();
        while let Some(kind) = open.pop() {
            match kind {
                FieldType::Message(name) | FieldType::Special(Special::OneOf(name)) => {
                    assert!(facts.messages.contains_key(&name), "{name}");
                }
                FieldType::List(inner) | FieldType::Map(inner) | FieldType::Nested(inner) => {
                    open.push(*inner);
                }
                _ => {}
            }
        }
    }
}
