//! Constraints on a single value: enums, lengths, patterns, formats, bounds, counts.

use super::types::is_integral;
use super::{Failure, Outcome};
use crate::error::{ErrorKind, FieldError};
use crate::formats;
use crate::gotext::{self, Num, quote};
use crate::node::{Node, Type};
use serde_json::{Number, Value};

fn one(failure: Failure) -> Outcome {
    Outcome::failed(failure)
}

/// `enum`
pub(super) fn choice(node: &Node, value: &Value, at: &str) -> Outcome {
    let choices = &node.limits.choices;
    if choices.is_empty() || choices.iter().any(|choice| is_choice(value, choice)) {
        return Outcome::default();
    }
    let supported: Vec<_> = choices
        .iter()
        .map(|choice| choice.as_str().map_or_else(|| gotext::json(choice), String::from))
        .collect();
    let text = format!("{at} in body should be one of [{}]", supported.join(" "));
    let error = FieldError::not_supported(at, value.clone(), &supported);
    one(Failure { at: at.to_string(), text, error })
}

/// Whether `value` is `choice` once Go has converted it to the type of the choice: a float loses its fraction,
/// an integer becomes the letter of that code.
fn is_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (_, Value::Null) => false,
        (Value::Number(value), Value::Number(choice)) => match (Num::of(value), Num::of(choice)) {
            (Num::Int(value), Num::Int(choice)) => value == choice,
            (Num::Float(value), Num::Int(choice)) => to_int(value) == choice,
            (value, Num::Float(choice)) => value.as_f64() == choice,
        },
        (Value::Number(value), Value::String(choice)) => match Num::of(value) {
            Num::Int(code) => {
                let letter = u32::try_from(code).ok().and_then(char::from_u32);
                choice.chars().eq([letter.unwrap_or(char::REPLACEMENT_CHARACTER)])
            }
            Num::Float(_) => false,
        },
        (value, choice) => value == choice,
    }
}

/// Go's conversion on the machines it runs on: without the fraction, and the smallest integer if it does not fit.
fn to_int(float: f64) -> i64 {
    if float.abs() < 2f64.powi(63) { float as i64 } else { i64::MIN }
}

/// `maxLength`, `minLength` and `pattern`; the first that fails speaks.
pub(super) fn text(node: &Node, value: &str, at: &str) -> Outcome {
    let limits = &node.limits;
    // Cannot overflow: a text has fewer characters than memory has bytes.
    let length = i64::try_from(value.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = limits.max_length.filter(|most| length > *most) {
        let text = format!("{at} in body should be at most {most} chars long");
        return one(Failure { at: at.to_string(), text, error: FieldError::too_long(at, most) });
    }
    if let Some(least) = limits.min_length.filter(|least| length < *least) {
        let text = format!("{at} in body should be at least {least} chars long");
        return one(Failure::new(at, ErrorKind::Invalid, Value::from(value), text));
    }
    if let Some((written, _)) = limits.pattern.as_ref().filter(|(_, pattern)| !pattern.is_match(value)) {
        let text = format!("{at} in body should match '{written}'");
        return one(Failure::new(at, ErrorKind::Invalid, Value::from(value), text));
    }
    Outcome::default()
}

/// `format` of a string
pub(super) fn format(format: &str, value: &str, at: &str) -> Outcome {
    if formats::holds(format, value) {
        return Outcome::default();
    }
    let text = format!("{at} in body must be of type {format}: {}", quote(value));
    one(Failure::new(at, ErrorKind::TypeInvalid, Value::from(value), text))
}

/// `multipleOf`, `minimum`, `maximum` and the range of a numeric format
pub(super) fn number(node: &Node, number: &Number, at: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let value = Num::of(number);
    let limits = &node.limits;
    let mut in_range = |number: Num, what: &str| match out_of_range(node, number, what, at) {
        Some(failure) => {
            outcome.fail(failure);
            false
        }
        None => true,
    };
    in_range(value, "Checked");
    let bounds = [
        (limits.multiple_of, "MultipleOf"),
        (limits.minimum, "Minimum boundary"),
        (limits.maximum, "Maximum boundary"),
    ];
    // An integer is compared with an integer, unless the bound is none.
    let native = bounds.map(|(bound, what)| bound.is_some_and(|bound| in_range(Num::Float(bound), what)));
    let as_native = |native: bool, bound: f64| match value {
        Num::Int(value) if native => (Num::Int(value), Num::Int(bound as i64)),
        other => (Num::Float(other.as_f64()), Num::Float(bound)),
    };
    let mut refuse = |value: Num, text: String| {
        outcome.fail(Failure::new(at, ErrorKind::Invalid, json(value), text));
    };
    if let Some(bound) = limits.multiple_of {
        let (value, factor) = as_native(native[0], bound);
        if factor.as_f64() <= 0.0 {
            let shown = gotext::number(factor);
            refuse(factor, format!("factor MultipleOf declared for {at} must be positive: {shown}"));
        } else if !is_multiple(value, factor) {
            refuse(value, format!("{at} in body should be a multiple of {}", gotext::number(factor)));
        }
    }
    if let Some(bound) = limits.minimum {
        let (value, least) = as_native(native[1], bound);
        let below = less(value, least) || (limits.exclusive_minimum && value == least);
        if below {
            let than = if limits.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            refuse(value, format!("{at} in body should be {than} {}", gotext::number(least)));
        }
    }
    if let Some(bound) = limits.maximum {
        let (value, most) = as_native(native[2], bound);
        let above = less(most, value) || (limits.exclusive_maximum && value == most);
        if above {
            let than = if limits.exclusive_maximum { "less than" } else { "less than or equal to" };
            refuse(value, format!("{at} in body should be {than} {}", gotext::number(most)));
        }
    }
    outcome.matches += 1;
    outcome
}

fn json(number: Num) -> Value {
    match number {
        Num::Int(int) => Value::from(int),
        Num::Float(float) => Value::from(float),
    }
}

fn less(a: Num, b: Num) -> bool {
    match (a, b) {
        (Num::Int(a), Num::Int(b)) => a < b,
        (a, b) => a.as_f64() < b.as_f64(),
    }
}

fn is_multiple(value: Num, factor: Num) -> bool {
    match (value, factor) {
        (Num::Int(value), Num::Int(factor)) => value % factor == 0,
        (value, factor) => {
            let (value, factor) = (value.as_f64(), factor.as_f64());
            is_integral(if factor < 1.0 { 1.0 / factor * value } else { value / factor })
        }
    }
}

/// A number, or a bound, that the type and format of the field cannot hold.
fn out_of_range(node: &Node, number: Num, what: &str, at: &str) -> Option<Failure> {
    let format = node.limits.checked_format.as_deref().unwrap_or_default();
    let [ty @ (Type::Integer | Type::Number)] = node.types() else { return None };
    let fits = match (ty, number) {
        (Type::Integer, Num::Int(int)) => format != "int32" || i32::try_from(int).is_ok(),
        (Type::Integer, Num::Float(float)) => {
            let (low, high) = if format == "int32" {
                (-2_147_483_648.0, 2_147_483_647.0)
            } else {
                (-(2f64.powi(63)), 2f64.powi(63))
            };
            float == float.trunc() && float >= low && float <= high && float < 2f64.powi(63)
        }
        (_, number) => format != "float" || !(number.as_f64() as f32).is_infinite(),
    };
    let kind = ty.name();
    (!fits).then(|| {
        Failure::placeless(if format.is_empty() {
            format!("{what} value must be of type {kind} (default format) in {at}")
        } else {
            format!("{what} value must be of type {kind} with format {format} in {at}")
        })
    })
}

/// `minItems` and `maxItems`
pub(super) fn items(node: &Node, count: usize, at: &str) -> Vec<Failure> {
    count_failures(count, at, node.limits.min_items, node.limits.max_items, "items")
}

/// Whether a list is longer than `maxItems`.
pub(super) fn has_too_many(node: &Node, count: usize) -> bool {
    node.limits.max_items.is_some_and(|most| i64::try_from(count).unwrap_or(i64::MAX) > most)
}

/// `minProperties` and `maxProperties`
pub(super) fn properties(node: &Node, count: usize, at: &str) -> Vec<Failure> {
    count_failures(count, at, node.limits.min_properties, node.limits.max_properties, "properties")
}

fn count_failures(count: usize, at: &str, least: Option<i64>, most: Option<i64>, what: &str) -> Vec<Failure> {
    let mut failures = Vec::new();
    // Cannot overflow: a list has fewer items than memory has bytes.
    let size = i64::try_from(count).unwrap_or(i64::MAX);
    if let Some(least) = least.filter(|least| size < *least) {
        let text = format!("{at} in body should have at least {least} {what}");
        failures.push(Failure::new(at, ErrorKind::Invalid, Value::from(count), text));
    }
    if let Some(most) = most.filter(|most| size > *most) {
        let text = format!("{at} in body should have at most {most} {what}");
        failures.push(Failure { at: at.to_string(), text, error: FieldError::too_many(at, count, most) });
    }
    failures
}
