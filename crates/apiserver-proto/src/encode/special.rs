//! What has a form of its own in JSON: times, quantities, either-or values, and JSON itself.

use jiff::Timestamp;
use serde_json::Value;

use super::{EncodeError, Encoded, integer, message, one};
use crate::{
    duration,
    facts::{Facts, FieldType, Special},
    wire::{put_bytes, put_nested, put_number},
};

/// Go's zero time, 1 January of the year 1, in seconds since 1970.
const ZERO_TIME: i64 = -62_135_596_800;

/// Writes the message that a value stands for.
pub(super) fn write(
    facts: &Facts,
    special: &Special,
    value: &Value,
    out: &mut Vec<u8>,
    depth: usize,
) -> Encoded {
    match (special, value) {
        // JSON of its own may be null.
        (Special::OneOf(_), Value::Null) => return Err(EncodeError::at_the_value()),
        (_, Value::Null) => return write_zero(facts, special, out, depth),
        (Special::Time, Value::String(text)) => time(text, |_| 0, out)?,
        (Special::MicroTime, Value::String(text)) => {
            time(text, |nanoseconds| nanoseconds / 1000 * 1000, out)?;
        }
        (Special::Duration, Value::String(text)) => {
            let nanoseconds = duration::read(text).ok_or_else(EncodeError::at_the_value)?;
            put_number(out, 1, nanoseconds.cast_unsigned());
        }
        (Special::Raw, value) => put_bytes(out, 1, value.to_string().as_bytes()),
        (Special::Quantity, Value::String(text)) => put_bytes(out, 1, text.as_bytes()),
        (Special::Quantity, Value::Number(number)) => put_bytes(out, 1, number.to_string().as_bytes()),
        (Special::IntOrString, Value::String(text)) => int_or_string(1, 0, text, out),
        (Special::IntOrString, value @ Value::Number(_)) => int_or_string(0, integer(value)?, "", out),
        (Special::OneOf(name), value) => one_of(facts, name, value, out, depth)?,
        _ => return Err(EncodeError::at_the_value()),
    }
    Ok(())
}

/// Writes the message of a value that is not there.
pub(super) fn write_zero(facts: &Facts, special: &Special, out: &mut Vec<u8>, depth: usize) -> Encoded {
    match special {
        Special::Time | Special::MicroTime | Special::Raw => {}
        Special::Duration => put_number(out, 1, 0),
        Special::Quantity => put_bytes(out, 1, b"0"),
        Special::IntOrString => int_or_string(0, 0, "", out),
        Special::OneOf(name) => message(facts, name, &serde_json::Map::new(), out, depth + 1)?,
    }
    Ok(())
}

/// Writes a time with what is left of its nanoseconds. The zero time has no fields.
fn time(text: &str, left: impl Fn(i32) -> i32, out: &mut Vec<u8>) -> Encoded {
    let at: Timestamp = text.parse().map_err(|_| EncodeError::at_the_value())?;
    let (mut seconds, mut nanoseconds) = (at.as_second(), at.subsec_nanosecond());
    if nanoseconds < 0 {
        // Before 1970, Go counts them from the second before.
        (seconds, nanoseconds) = (seconds - 1, nanoseconds + 1_000_000_000);
    }
    if (seconds, nanoseconds) != (ZERO_TIME, 0) {
        put_number(out, 1, seconds.cast_unsigned());
        put_number(out, 2, i64::from(left(nanoseconds)).cast_unsigned());
    }
    Ok(())
}

fn int_or_string(kind: u64, number: i64, text: &str, out: &mut Vec<u8>) {
    put_number(out, 1, kind);
    put_number(out, 2, number.cast_unsigned());
    put_bytes(out, 3, text.as_bytes());
}

/// Sets the field that can hold the value. A flag beside it says that there is something.
fn one_of(facts: &Facts, name: &str, value: &Value, out: &mut Vec<u8>, depth: usize) -> Encoded {
    let mut is_written = false;
    for field in facts.fields(name) {
        is_written |= match (&field.kind, value) {
            (FieldType::Bool, Value::Bool(flag)) => {
                put_number(out, field.number, u64::from(*flag));
                true
            }
            (FieldType::Bool, _) => {
                put_number(out, field.number, 1);
                false
            }
            (FieldType::Message(inner), Value::Object(object)) => {
                put_nested(out, field.number, |out| message(facts, inner, object, out, depth + 1))?;
                true
            }
            (FieldType::List(kind), Value::Array(items)) => {
                items.iter().try_for_each(|item| one(facts, field.number, kind, item, out, depth + 1))?;
                true
            }
            _ => false,
        };
    }
    if is_written { Ok(()) } else { Err(EncodeError::at_the_value()) }
}
