//! JSON from protobuf.

mod special;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value};

use crate::{
    DEEPEST, MAGIC,
    facts::{Facts, Field, FieldType},
    wire::{self, Fields, Malformed, Wire},
};

/// Why bytes are not an object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They are not what Kubernetes writes.
    #[error("the body is not a protobuf object of Kubernetes")]
    Malformed,
    /// No facts are known about the kind.
    #[error("{kind} of {api_version} has no protobuf form here")]
    UnknownKind {
        /// The `apiVersion`.
        api_version: String,
        /// The kind.
        kind: String,
    },
}

impl From<Malformed> for DecodeError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

type Decoded<T> = Result<T, Malformed>;

/// Decodes an object in its envelope, which names the kind.
///
/// # Errors
/// If it is not an object, or of an unknown kind.
pub fn decode(body: &[u8]) -> Result<Value, DecodeError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(Malformed)?;
    let (api_version, kind, raw) = open(envelope)?;
    let facts = Facts::get();
    let Some(message) = facts.message(&api_version, &kind) else {
        return Err(DecodeError::UnknownKind { api_version, kind });
    };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    merge(facts, message, raw, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// The envelope: version, kind, and the object's own bytes.
fn open(envelope: &[u8]) -> Decoded<(String, String, &[u8])> {
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields(envelope) {
        match field? {
            (1, Wire::Bytes(type_meta)) => {
                for field in Fields(type_meta) {
                    match field? {
                        (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            // Bodies are sent as they are: compression is the connection's business.
            (3, Wire::Bytes(encoding)) if !encoding.is_empty() => return Err(Malformed),
            _ => {}
        }
    }
    Ok((api_version, kind, raw))
}

fn text(bytes: &[u8]) -> Decoded<String> {
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed)
}

/// Puts the fields of a message into an object. Fields that we do not know are left out, as by every
/// reader of protobuf.
fn merge(
    facts: &Facts,
    message: &str,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Decoded<()> {
    if depth > DEEPEST {
        return Err(Malformed);
    }
    let fields = facts.fields(message);
    for sent in Fields(bytes) {
        let (number, wire) = sent?;
        let Some(field) = fields.iter().find(|field| field.number == number) else { continue };
        if field.name.is_empty() {
            if let (FieldType::Message(inner), Wire::Bytes(bytes)) = (&field.kind, wire) {
                merge(facts, inner, bytes, object, depth + 1)?;
            }
            continue;
        }
        add(facts, field, wire, object, depth)?;
    }
    Ok(())
}

fn add(
    facts: &Facts,
    field: &Field,
    wire: Wire<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Decoded<()> {
    match (&field.kind, wire) {
        (FieldType::List(kind), Wire::Bytes(mut packed)) if is_number(kind) => {
            let list = list(object, &field.name);
            while !packed.is_empty() {
                let number = wire::varint(&mut packed).ok_or(Malformed)?;
                list.push(value(facts, kind, Wire::Varint(number), depth)?);
            }
        }
        (FieldType::List(kind), wire) => {
            let item = value(facts, kind, wire, depth)?;
            list(object, &field.name).push(item);
        }
        (FieldType::Map(kind), Wire::Bytes(entry)) => {
            let (key, item) = entry_of(facts, kind, entry, depth)?;
            let map = object.entry(&field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key, item);
            }
        }
        (FieldType::Message(inner), Wire::Bytes(bytes)) => {
            // Sent twice, a message is merged.
            let place = object.entry(&field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(place) = place {
                merge(facts, inner, bytes, place, depth + 1)?;
            }
            if field.drop_zero && object.get(&field.name).is_some_and(is_zero) {
                object.shift_remove(&field.name);
            }
        }
        (kind, wire) => {
            let value = value(facts, kind, wire, depth)?;
            if field.drop_zero && is_zero(&value) {
                object.shift_remove(&field.name);
            } else {
                object.insert(field.name.clone(), value);
            }
        }
    }
    Ok(())
}

fn list<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Vec<Value> {
    match object.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
        Value::Array(list) => list,
        _ => unreachable!("a field has one kind, and a list begins as one"),
    }
}

fn is_number(kind: &FieldType) -> bool {
    matches!(kind, FieldType::Bool | FieldType::Signed | FieldType::Unsigned)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// A map is a list of messages with a key and a value.
fn entry_of(facts: &Facts, kind: &FieldType, entry: &[u8], depth: usize) -> Decoded<(String, Value)> {
    let (mut key, mut item) = (String::new(), None);
    for field in Fields(entry) {
        match field? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => item = Some(value(facts, kind, wire, depth)?),
            _ => {}
        }
    }
    let item = match (item, kind) {
        (Some(item), _) => item,
        (None, FieldType::Text | FieldType::Bytes) => "".into(),
        (None, FieldType::List(_) | FieldType::Nested(_)) => Value::Array(Vec::new()),
        (None, _) => value(facts, kind, Wire::Bytes(&[]), depth)?,
    };
    Ok((key, item))
}

fn value(facts: &Facts, kind: &FieldType, wire: Wire<'_>, depth: usize) -> Decoded<Value> {
    Ok(match (kind, wire) {
        (FieldType::Text, Wire::Bytes(bytes)) => text(bytes)?.into(),
        (FieldType::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (FieldType::Bool, Wire::Varint(number)) => (number != 0).into(),
        // Two's complement, as protobuf has it.
        (FieldType::Signed, Wire::Varint(number)) => number.cast_signed().into(),
        (FieldType::Unsigned, Wire::Varint(number)) => number.into(),
        (FieldType::Double, Wire::Fixed64(bits)) => {
            Value::Number(Number::from_f64(f64::from_bits(bits)).ok_or(Malformed)?)
        }
        (FieldType::Message(message), Wire::Bytes(bytes)) => {
            let mut object = Map::new();
            merge(facts, message, bytes, &mut object, depth + 1)?;
            Value::Object(object)
        }
        (FieldType::Nested(kind), Wire::Bytes(bytes)) => {
            let items = Fields(bytes).filter_map(|field| match field {
                Ok((1, wire)) => Some(value(facts, kind, wire, depth + 1)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            });
            Value::Array(items.collect::<Decoded<_>>()?)
        }
        (FieldType::Special(special), Wire::Bytes(bytes)) => special::value(facts, special, bytes, depth)?,
        _ => return Err(Malformed),
    })
}

#[cfg(test)]
mod tests;
