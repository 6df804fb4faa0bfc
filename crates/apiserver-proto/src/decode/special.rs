//! What has a form of its own in JSON: times, quantities, either-or values, and JSON itself.

use jiff::Timestamp;
use serde_json::Value;

use super::{Decoded, text, value as any};
use crate::{
    DEEPEST, duration,
    facts::{Facts, FieldType, Special},
    wire::{Fields, Malformed, Wire},
};

/// The value that a message of a special type stands for.
pub(super) fn value(facts: &Facts, special: &Special, bytes: &[u8], depth: usize) -> Decoded<Value> {
    if depth > DEEPEST {
        return Err(Malformed);
    }
    match special {
        Special::Time => {
            Ok(time(bytes)?.map_or(Value::Null, |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()))
        }
        Special::MicroTime => {
            let micros = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
            Ok(time(bytes)?.map_or(Value::Null, |at| micros(at).into()))
        }
        Special::Duration => {
            let nanoseconds = numbers(bytes, [1])?[0];
            Ok(duration::written(nanoseconds).into())
        }
        Special::Raw => match first_bytes(bytes)? {
            [] => Ok(Value::Null),
            json => serde_json::from_slice(json).map_err(|_| Malformed),
        },
        Special::Quantity => Ok(text(first_bytes(bytes)?)?.into()),
        Special::IntOrString => int_or_string(bytes),
        Special::OneOf(message) => one_of(facts, message, bytes, depth),
    }
}

/// The numbers of some fields; 0 for what was not sent.
fn numbers<const N: usize>(bytes: &[u8], wanted: [u64; N]) -> Decoded<[i64; N]> {
    let mut found = [0; N];
    for field in Fields(bytes) {
        if let (number, Wire::Varint(value)) = field?
            && let Some(index) = wanted.iter().position(|wanted| *wanted == number)
        {
            found[index] = value.cast_signed();
        }
    }
    Ok(found)
}

/// The bytes of field 1.
fn first_bytes(bytes: &[u8]) -> Decoded<&[u8]> {
    let mut found = &[][..];
    for field in Fields(bytes) {
        if let (1, Wire::Bytes(bytes)) = field? {
            found = bytes;
        }
    }
    Ok(found)
}

/// A time; nothing if nothing was sent, which is how Go's zero time is sent.
fn time(bytes: &[u8]) -> Decoded<Option<Timestamp>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let [seconds, nanoseconds] = numbers(bytes, [1, 2])?;
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| Malformed)?;
    Timestamp::new(seconds, nanoseconds).map(Some).map_err(|_| Malformed)
}

fn int_or_string(bytes: &[u8]) -> Decoded<Value> {
    let [kind, number] = numbers(bytes, [1, 2])?;
    if kind == 0 {
        return Ok(number.into());
    }
    for field in Fields(bytes) {
        if let (3, Wire::Bytes(bytes)) = field? {
            return Ok(text(bytes)?.into());
        }
    }
    Ok("".into())
}

/// Whichever field holds something. A flag that is set says only that nothing more is said.
fn one_of(facts: &Facts, message: &str, bytes: &[u8], depth: usize) -> Decoded<Value> {
    let mut found = Value::Null;
    for sent in Fields(bytes) {
        let (number, wire) = sent?;
        let Some(field) = facts.fields(message).iter().find(|field| field.number == number) else { continue };
        match (&field.kind, any(facts, item_kind(&field.kind), wire, depth + 1)?) {
            (FieldType::List(_), item) => match &mut found {
                Value::Array(items) => items.push(item),
                found => *found = Value::Array(vec![item]),
            },
            (_, flag @ Value::Bool(_)) if !found.is_null() => drop(flag),
            (_, other) => found = other,
        }
    }
    Ok(found)
}

fn item_kind(kind: &FieldType) -> &FieldType {
    match kind {
        FieldType::List(inner) => inner,
        other => other,
    }
}
