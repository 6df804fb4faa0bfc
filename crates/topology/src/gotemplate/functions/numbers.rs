//! Functions about numbers.

use super::super::format;
use super::{Args, Function, MOST_ITEMS, Outcome, text};
use gotmpl::Value;

pub(super) const TABLE: &[(&str, Function)] = &[
    ("int", |args| Ok(Value::Int(to_int(args.any(0)?)))),
    ("int64", |args| Ok(Value::Int(to_int(args.any(0)?)))),
    ("float64", |args| Ok(Value::Float(to_float(args.any(0)?)))),
    ("atoi", |args| Ok(Value::Int(args.text(0)?.parse().unwrap_or(0)))),
    ("toDecimal", |args| Ok(Value::Int(i64::from_str_radix(&format::text(args.any(0)?), 8).unwrap_or(0)))),
    ("add1", |args| Ok(Value::Int(to_int(args.any(0)?).wrapping_add(1)))),
    ("add", |args| fold(args, 0, i64::wrapping_add)),
    ("mul", |args| {
        args.at_least(1)?;
        fold(args, 1, i64::wrapping_mul)
    }),
    ("sub", |args| two(args, |a, b| Some(a.wrapping_sub(b)))),
    ("div", |args| two(args, i64::checked_div)),
    ("mod", |args| two(args, i64::checked_rem)),
    ("max", |args| extreme(args, i64::max)),
    ("biggest", |args| extreme(args, i64::max)),
    ("min", |args| extreme(args, i64::min)),
    ("maxf", |args| extreme_float(args, f64::max)),
    ("minf", |args| extreme_float(args, f64::min)),
    ("floor", |args| Ok(Value::Float(to_float(args.any(0)?).floor()))),
    ("ceil", |args| Ok(Value::Float(to_float(args.any(0)?).ceil()))),
    ("round", round),
    ("until", |args| {
        let count = args.int(0)?;
        args.listed(ints(steps(args, 0, count, if count < 0 { -1 } else { 1 })?))
    }),
    ("untilStep", |args| args.listed(ints(steps(args, args.int(0)?, args.int(1)?, args.int(2)?)?))),
    ("seq", seq),
];

/// Any value as an integer, 0 if it is none.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        Value::Uint(number) => i64::try_from(*number).unwrap_or(i64::MAX),
        // Go truncates, too.
        Value::Float(number) => *number as i64,
        Value::Bool(truth) => i64::from(*truth),
        Value::String(text) => parse(text),
        _ => 0,
    }
}

/// An integer as Go reads it without a given base: `0x`, `0o`, `0b` and `0` are prefixes.
fn parse(text: &str) -> i64 {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = match digits.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.chars().all(|digit| digit == '0') => whole,
        _ => digits,
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, base) = match lower.get(..2) {
        Some("0x") => (&lower[2..], 16),
        Some("0o") => (&lower[2..], 8),
        Some("0b") => (&lower[2..], 2),
        Some(_) if lower.starts_with('0') => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    i64::from_str_radix(digits, base).map_or(0, |number| sign * number)
}

fn to_float(value: &Value) -> f64 {
    match value {
        Value::Float(number) => *number,
        Value::String(text) => text.parse().unwrap_or(0.0),
        // Exact up to 2^53, as in Go.
        other => to_int(other) as f64,
    }
}

fn fold(args: Args<'_>, start: i64, step: fn(i64, i64) -> i64) -> Outcome {
    Ok(Value::Int(args.values.iter().map(to_int).fold(start, step)))
}

fn two(args: Args<'_>, operation: fn(i64, i64) -> Option<i64>) -> Outcome {
    args.exactly(2)?;
    let result = operation(to_int(args.any(0)?), to_int(args.any(1)?));
    result.map(Value::Int).ok_or_else(|| args.fail("division by zero"))
}

fn extreme(args: Args<'_>, choose: fn(i64, i64) -> i64) -> Outcome {
    let first = to_int(args.any(0)?);
    Ok(Value::Int(args.rest(1).iter().map(to_int).fold(first, choose)))
}

fn extreme_float(args: Args<'_>, choose: fn(f64, f64) -> f64) -> Outcome {
    let first = to_float(args.any(0)?);
    Ok(Value::Float(args.rest(1).iter().map(to_float).fold(first, choose)))
}

fn round(args: Args<'_>) -> Outcome {
    args.between(2, 3)?;
    let places = i32::try_from(args.int(1)?).map_err(|_| args.fail("too many places"))?;
    let on = args.values.get(2).map_or(0.5, to_float);
    let power = 10f64.powi(places);
    let digits = to_float(args.any(0)?) * power;
    let rounded = if digits.fract() >= on { digits.ceil() } else { digits.floor() };
    Ok(Value::Float(rounded / power))
}

fn ints(numbers: Vec<i64>) -> Vec<Value> {
    numbers.into_iter().map(Value::Int).collect()
}

/// The numbers from `start` to before `stop`; none if the step leads away.
fn steps(args: Args<'_>, start: i64, stop: i64, step: i64) -> gotmpl::Result<Vec<i64>> {
    let mut numbers = Vec::new();
    if step == 0 || (step > 0) != (stop > start) {
        return Ok(numbers);
    }
    let mut next = start;
    while (step > 0 && next < stop) || (step < 0 && next > stop) {
        if numbers.len() == MOST_ITEMS {
            return Err(args.fail(format!("the list has more than {MOST_ITEMS} items")));
        }
        numbers.push(next);
        next = next.saturating_add(step);
    }
    Ok(numbers)
}

/// Numbers as a text with spaces, both ends included.
fn seq(args: Args<'_>) -> Outcome {
    let (start, step, end) = match args.values.len() {
        1 => (1, None, args.int(0)?),
        2 => (args.int(0)?, None, args.int(1)?),
        3 => (args.int(0)?, Some(args.int(1)?), args.int(2)?),
        _ => return Ok(text("")),
    };
    let toward = if end < start { -1 } else { 1 };
    if step.is_some_and(|step| end < start && step > 0) {
        return Ok(text(""));
    }
    let numbers = steps(args, start, end.saturating_add(toward), step.unwrap_or(toward))?;
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    Ok(text(texts.join(" ")))
}
