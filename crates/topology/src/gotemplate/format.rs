//! The text that Go's `fmt` package makes of a value.

use gotmpl::Value;
use std::fmt::Write;

/// A value as `%v` writes it.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value);
    text
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Float(number) => out.push_str(&float(*number)),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push_str("map[");
            for (i, (key, item)) in entries.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write(out, item);
            }
            out.push(']');
        }
        other => {
            // Writing to a text does not fail.
            let _ = write!(out, "{other}");
        }
    }
}

/// A `float64` as `%v` writes it: the shortest digits, with an exponent below 10^-4 and from 10^6 on.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_string();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_string() } else { "-Inf".to_string() };
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::float;

    #[test]
    fn floats_are_written_as_go_does() {
        for (number, expected) in [
            (0.0, "0"),
            (4.0, "4"),
            (-2.5, "-2.5"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(float(number), expected);
        }
    }
}
