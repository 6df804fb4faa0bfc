//! Checks that a value has the type, or otherwise the format, of its schema.

use super::{Failure, Outcome};
use crate::error::ErrorKind;
use crate::gotext::{Num, quote};
use crate::node::{Node, Type};
use serde_json::Value;

pub(super) fn check(node: &Node, value: &Value, at: &str) -> Outcome {
    let types = node.types();
    let Some(actual) = actual(value) else {
        if !types.is_empty() && !node.nullable {
            return failed(at, &names(types), "null");
        }
        return Outcome::passed();
    };
    let integral = match value {
        Value::Number(number) => match Num::of(number) {
            Num::Float(float) => types.contains(&Type::Integer) && is_integral(float),
            Num::Int(_) => types.contains(&Type::Number),
        },
        _ => false,
    };
    let fits = types.contains(&actual) || integral;
    if let Some(format) = &node.limits.checked_format {
        let format_of_value = match actual {
            Type::Integer => "int64",
            Type::Number => "float64",
            _ => "",
        };
        let texty = matches!(actual, Type::String | Type::Array);
        if !texty && !fits && format_of_value != format {
            return failed(at, format, format_of_value);
        }
        // Upstream leaves a value with a format to the check of the format, which only looks at strings.
        if texty && !types.contains(&Type::Number) && !types.contains(&Type::Integer) {
            return Outcome::passed();
        }
    }
    if fits { Outcome::passed() } else { failed(at, &names(types), actual.name()) }
}

fn failed(at: &str, expected: &str, actual: &str) -> Outcome {
    let text = format!("{at} in body must be of type {expected}: {}", quote(actual));
    let failure = Failure::new(at, ErrorKind::TypeInvalid, Value::from(actual), text);
    Outcome::failed(failure)
}

fn names(types: &[Type]) -> String {
    types.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(",")
}

fn actual(value: &Value) -> Option<Type> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => Type::Boolean,
        Value::Number(number) => match Num::of(number) {
            Num::Int(_) => Type::Integer,
            Num::Float(_) => Type::Number,
        },
        Value::String(_) => Type::String,
        Value::Array(_) => Type::Array,
        Value::Object(_) => Type::Object,
    })
}

/// Whether a float is a whole number that JSON can carry, give or take upstream's tolerance.
pub(super) fn is_integral(float: f64) -> bool {
    const TOLERANCE: f64 = 1e-9;
    const LARGEST: f64 = ((1_u64 << 53) - 1) as f64;
    if !float.is_finite() || float.abs() > LARGEST {
        return false;
    }
    if float == float.trunc() {
        return true;
    }
    // Upstream rounds towards zero as an unsigned number, so that negative fractions never come close.
    let whole = if float < 0.0 { return false } else { float.trunc() };
    let difference = (float - whole).abs();
    whole != 0.0 && difference / (float.abs() + whole.abs()).min(f64::MAX) < TOLERANCE
}
