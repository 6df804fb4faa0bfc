//! Which fields messages have. See `data/README.md` for where the facts are from.

use std::{collections::HashMap, sync::OnceLock};

use serde::Deserialize;

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Bool,
    Signed,
    Unsigned,
    Double,
    /// Another message.
    Message(String),
    List(Box<Kind>),
    /// From texts.
    Map(Box<Kind>),
    /// A list that is a message with one field: within another list or map.
    Nested(Box<Kind>),
    /// Something with a form of its own in JSON.
    Special(Special),
}

/// What has a form of its own in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Special {
    /// A time in seconds.
    Time,
    /// A time in millionths of a second.
    MicroTime,
    Duration,
    /// JSON, as it is.
    Raw,
    Quantity,
    IntOrString,
    /// Whichever of the message's fields there is, bare.
    OneOf(String),
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// In JSON; empty if the fields of the message are written as if they were the parent's.
    pub(super) name: String,
    pub(super) kind: Kind,
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

fn kind_of(text: &str) -> Option<Kind> {
    let inner = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(inner) = inner("[[", "]]") {
        return Some(Kind::Nested(Box::new(kind_of(inner)?)));
    }
    if let Some(inner) = inner("[", "]") {
        return Some(Kind::List(Box::new(kind_of(inner)?)));
    }
    if let Some(inner) = inner("{", "}") {
        return Some(Kind::Map(Box::new(kind_of(inner)?)));
    }
    Some(match text {
        "s" => Kind::Text,
        "b" => Kind::Bytes,
        "t" => Kind::Bool,
        "i" => Kind::Signed,
        "u" => Kind::Unsigned,
        "d" => Kind::Double,
        "=Time" => Kind::Special(Special::Time),
        "=MicroTime" => Kind::Special(Special::MicroTime),
        "=Duration" => Kind::Special(Special::Duration),
        "=Raw" => Kind::Special(Special::Raw),
        "=Quantity" => Kind::Special(Special::Quantity),
        "=IntOrString" => Kind::Special(Special::IntOrString),
        text => match text.strip_prefix("=OneOf:") {
            Some(message) => Kind::Special(Special::OneOf(message.to_owned())),
            None if text.contains('.') => Kind::Message(text.to_owned()),
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
        let mut open: Vec<Kind> = facts.messages.values().flatten().map(|field| field.kind.clone()).collect();
        while let Some(kind) = open.pop() {
            match kind {
                Kind::Message(name) | Kind::Special(Special::OneOf(name)) => {
                    assert!(facts.messages.contains_key(&name), "{name}");
                }
                Kind::List(inner) | Kind::Map(inner) | Kind::Nested(inner) => open.push(*inner),
                _ => {}
            }
        }
    }
}
