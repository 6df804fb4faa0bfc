//! Protobuf from JSON, byte for byte as upstream writes it: fields by number, maps by key, and zero values wherever Go
//! has no pointer.

mod special;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use crate::{
    DEEPEST, MAGIC,
    facts::{Facts, Field, FieldType},
    wire::{put_bytes, put_fixed64, put_head, put_nested, put_number},
};

/// What every envelope ends with: the encoding and the type of its content, which nobody sets.
pub(crate) const ENVELOPE_END: &[u8] = &[0x1a, 0, 0x22, 0];

/// Why an object has no protobuf form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// No facts are known about the kind.
    #[error("{kind} of {api_version} has no protobuf form here")]
    UnknownKind {
        /// The `apiVersion`.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A value is of another type than the field.
    #[error("the value of {path} is not of the type that its field has in protobuf")]
    WrongType {
        /// Where it is.
        path: String,
    },
}

impl EncodeError {
    fn at_the_value() -> Self {
        Self::WrongType { path: String::new() }
    }

    /// The same, seen from the message that has the field.
    fn below(self, field: &str) -> Self {
        match self {
            Self::WrongType { path } if path.is_empty() => Self::WrongType { path: field.to_owned() },
            Self::WrongType { path } => Self::WrongType { path: format!("{field}.{path}") },
            unknown @ Self::UnknownKind { .. } => unknown,
        }
    }
}

type Encoded = Result<(), EncodeError>;

/// A kind with a protobuf form.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    message: &'static str,
}

impl Kind {
    /// The kind of this name, if it has a protobuf form.
    pub fn find(api_version: &str, kind: &str) -> Option<Self> {
        Facts::get().message(api_version, kind).map(|message| Self { message })
    }

    /// The message of this name, which is no kind of its own.
    pub(crate) const fn of_message(message: &'static str) -> Self {
        Self { message }
    }

    /// Writes an object without an envelope, as an item of a list or a field of another object.
    pub(crate) fn write(self, object: &Value, out: &mut Vec<u8>) -> Encoded {
        let object = object.as_object().ok_or_else(EncodeError::at_the_value)?;
        message(Facts::get(), self.message, object, out, 0)
    }
}

/// Encodes an object in its envelope. It must have `apiVersion` and `kind`.
///
/// # Errors
/// If no facts are known about the kind, or a value is of the wrong type.
pub fn encode(object: &Value) -> Result<Vec<u8>, EncodeError> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some(found) = Kind::find(api_version, kind) else {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        return Err(EncodeError::UnknownKind { api_version, kind });
    };
    let mut raw = Vec::new();
    found.write(object, &mut raw)?;
    let mut out = envelope_start(api_version, kind, raw.len());
    out.extend_from_slice(&raw);
    out.extend_from_slice(ENVELOPE_END);
    Ok(out)
}

/// What comes before the bytes of an object.
pub(crate) fn envelope_start(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = Vec::with_capacity(type_meta.len() + length + 24);
    out.extend_from_slice(MAGIC);
    put_bytes(&mut out, 1, &type_meta);
    put_head(&mut out, 2, length);
    out
}

/// The frame before an object of this length, with its envelope, in a stream of watch events. Events are separated by
/// their length, which comes first.
pub fn watch_frame(event: &str, object: usize) -> Vec<u8> {
    let mut head = Vec::new();
    put_bytes(&mut head, 1, event.as_bytes());
    let mut inner = Vec::new();
    put_head(&mut inner, 1, object);
    put_head(&mut head, 2, inner.len() + object);
    head.extend_from_slice(&inner);
    // Objects have a few MiB at most.
    let length = u32::try_from(head.len() + object).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &head].concat()
}

/// Writes the fields of a message. What the message does not have is left out, as by every writer of protobuf.
fn message(
    facts: &Facts,
    name: &str,
    object: &Map<String, Value>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Encoded {
    if depth > DEEPEST {
        return Err(EncodeError::at_the_value());
    }
    for field in facts.fields(name) {
        if field.name.is_empty() {
            // Its fields are among those of its parent.
            if let FieldType::Message(inner) = &field.kind {
                put_nested(out, field.number, |out| message(facts, inner, object, out, depth + 1))?;
            }
            continue;
        }
        match object.get(&field.name).filter(|value| !value.is_null()) {
            Some(value) => add(facts, field, value, out, depth).map_err(|error| error.below(&field.name))?,
            None if field.always => nothing(facts, field, out, depth)?,
            None => {}
        }
    }
    Ok(())
}

/// Writes a field that has a value.
fn add(facts: &Facts, field: &Field, value: &Value, out: &mut Vec<u8>, depth: usize) -> Encoded {
    match (&field.kind, value) {
        (FieldType::List(kind), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                one(facts, field.number, kind, item, out, depth)
                    .map_err(|error| error.below(&index.to_string()))?;
            }
            Ok(())
        }
        (FieldType::Map(kind), Value::Object(entries)) => {
            let mut sorted: Vec<(&String, &Value)> = entries.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            for (key, item) in sorted {
                put_nested(out, field.number, |out| {
                    put_bytes(out, 1, key.as_bytes());
                    one(facts, 2, kind, item, out, depth)
                })
                .map_err(|error| error.below(key))?;
            }
            Ok(())
        }
        (kind, value) => one(facts, field.number, kind, value, out, depth),
    }
}

/// Writes one value: of a field, of an item of a list, of an entry of a map.
fn one(
    facts: &Facts,
    number: u64,
    kind: &FieldType,
    value: &Value,
    out: &mut Vec<u8>,
    depth: usize,
) -> Encoded {
    match (kind, value) {
        (FieldType::Text, Value::String(text)) => put_bytes(out, number, text.as_bytes()),
        (FieldType::Bytes, Value::String(text)) => put_bytes(out, number, &bytes(text)?),
        (FieldType::Bool, Value::Bool(flag)) => put_number(out, number, u64::from(*flag)),
        (FieldType::Signed, value) => put_number(out, number, integer(value)?.cast_unsigned()),
        (FieldType::Unsigned, value) => {
            put_number(out, number, value.as_u64().ok_or_else(EncodeError::at_the_value)?);
        }
        (FieldType::Double, Value::Number(value)) => {
            let value = value.as_f64().ok_or_else(EncodeError::at_the_value)?;
            put_fixed64(out, number, value.to_bits());
        }
        (FieldType::Message(name), Value::Object(object)) => {
            put_nested(out, number, |out| message(facts, name, object, out, depth + 1))?;
        }
        (FieldType::Nested(kind), Value::Array(items)) => put_nested(out, number, |out| {
            items.iter().try_for_each(|item| one(facts, 1, kind, item, out, depth + 1))
        })?,
        (FieldType::Special(special), value) => {
            put_nested(out, number, |out| special::write(facts, special, value, out, depth))?;
        }
        // An item or an entry that is null.
        (FieldType::Text | FieldType::Bytes | FieldType::Message(_) | FieldType::Nested(_), Value::Null) => {
            put_bytes(out, number, &[]);
        }
        _ => return Err(EncodeError::at_the_value()),
    }
    Ok(())
}

/// Writes a field that JSON does not have and Go always has.
fn nothing(facts: &Facts, field: &Field, out: &mut Vec<u8>, depth: usize) -> Encoded {
    match &field.kind {
        FieldType::Text | FieldType::Bytes => put_bytes(out, field.number, &[]),
        FieldType::Bool | FieldType::Signed | FieldType::Unsigned => put_number(out, field.number, 0),
        FieldType::Double => put_fixed64(out, field.number, 0),
        FieldType::Message(name) => {
            put_nested(out, field.number, |out| message(facts, name, &Map::new(), out, depth + 1))?;
        }
        FieldType::Special(special) => {
            put_nested(out, field.number, |out| special::write_zero(facts, special, out, depth))?;
        }
        // They are nothing if they are empty.
        FieldType::List(_) | FieldType::Map(_) | FieldType::Nested(_) => {}
    }
    Ok(())
}

fn bytes(text: &str) -> Result<Vec<u8>, EncodeError> {
    let decoded = STANDARD.decode(text).or_else(|_| {
        // Line breaks in base64 are read by Go, and so by clients.
        STANDARD.decode(text.replace(['\r', '\n'], ""))
    });
    decoded.map_err(|_| EncodeError::at_the_value())
}

/// An integer; `2.0` is one, too.
fn integer(value: &Value) -> Result<i64, EncodeError> {
    let whole = || value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= 9e15);
    // Exact, because of the bound.
    value.as_i64().or_else(|| whole().map(|float| float as i64)).ok_or_else(EncodeError::at_the_value)
}

#[cfg(test)]
mod tests;
