//! Which fields messages have. See `data/README.md` for where the facts are from.

use std::{collections::HashMap, sync::OnceLock};

use serde::Deserialize;

/// The message of the metadata of lists.
pub(crate) const LIST_META: &str = "meta.v1.ListMeta";

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
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
pub(crate) enum Special {
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
pub(crate) struct Field {
    pub(crate) number: u64,
    /// In JSON; empty if the fields of the message are written as if they were the parent's.
    pub(crate) name: String,
    pub(crate) kind: FieldType,
    /// Whether JSON does not have the zero value.
    pub(crate) drop_zero: bool,
    /// Whether the zero value is written where JSON has nothing.
    pub(crate) always: bool,
}

/// All facts.
pub(crate) struct Facts {
    /// The message of a kind, by apiVersion and kind with a slash between, or by kind alone.
    kinds: HashMap<String, String>,
    messages: HashMap<String, Vec<Field>>,
}

impl Facts {
    pub(crate) fn get() -> &'static Self {
        static FACTS: OnceLock<Facts> = OnceLock::new();
        FACTS.get_or_init(|| {
            Self::read(include_str!("../data/kubernetes-protobuf.json"))
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
            let (drop_zero, always) = (flags.contains('z'), flags.contains('v'));
            Some(Field { number, name, kind: kind_of(&kind)?, drop_zero, always })
        };
        let File { kinds, messages } = serde_json::from_str(text).ok()?;
        let messages = messages
            .into_iter()
            .map(|(name, rows)| Some((name, rows.into_iter().map(field).collect::<Option<Vec<_>>>()?)))
            .collect::<Option<_>>()?;
        let mut facts = Self { kinds, messages };
        facts.add_lists();
        Some(facts)
    }

    /// Every kind with an `apiVersion` has a kind of lists, all of which are built alike.
    fn add_lists(&mut self) {
        let kinds: Vec<(String, String)> =
            self.kinds.iter().map(|(kind, message)| (kind.clone(), message.clone())).collect();
        for (kind, message) in kinds.into_iter().filter(|(kind, _)| kind.contains('/')) {
            let list = format!("{message}List");
            self.kinds.entry(format!("{kind}List")).or_insert_with(|| list.clone());
            self.messages.entry(list).or_insert_with(|| {
                let field = |number, name: &str, kind, always| Field {
                    number,
                    name: name.to_owned(),
                    kind,
                    drop_zero: false,
                    always,
                };
                let metadata = FieldType::Message(LIST_META.to_owned());
                let items = FieldType::List(Box::new(FieldType::Message(message)));
                vec![field(1, "metadata", metadata, true), field(2, "items", items, false)]
            });
        }
    }

    /// The message of a kind, if facts about it are known.
    pub(crate) fn message(&self, api_version: &str, kind: &str) -> Option<&str> {
        let message = self.kinds.get(&format!("{api_version}/{kind}")).or_else(|| self.kinds.get(kind));
        message.map(String::as_str)
    }

    /// All kinds with their messages.
    #[cfg(test)]
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kinds.iter().map(|(kind, message)| (kind.as_str(), message.as_str()))
    }

    /// The fields of a message.
    pub(crate) fn fields(&self, message: &str) -> &[Field] {
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
