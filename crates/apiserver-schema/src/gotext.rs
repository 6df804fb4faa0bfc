//! Formats values as Go does, because the messages of a kube-apiserver are made with Go's `%q`, `%v` and
//! `encoding/json`. This module knows nothing about schemas.

use serde_json::{Number, Value};

/// A number as the API server holds it: an `int64` where that is possible, a `float64` otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    pub(crate) fn of(number: &Number) -> Num {
        match number.as_i64() {
            Some(int) => Num::Int(int),
            // A JSON number without `arbitrary_precision` is an i64, a u64 or an f64, so this is never NaN.
            None => Num::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    pub(crate) fn as_f64(self) -> f64 {
        match self {
            // The loss above 2^53 is upstream's as well.
            Num::Int(int) => int as f64,
            Num::Float(float) => float,
        }
    }
}

/// `%v` of a number.
pub(crate) fn number(number: Num) -> String {
    match number {
        Num::Int(int) => int.to_string(),
        Num::Float(float) => shortest(float, -4, 6, true),
    }
}

/// `%q` of a string.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if printable(c) => out.push(c),
            c if (c as u32) < 0x80 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

fn printable(c: char) -> bool {
    // Rust escapes in debug output what Go calls unprintable, and combining marks when they come first.
    !['a', c].iter().collect::<String>().escape_debug().to_string().contains("\\u{")
        && (c == ' ' || !c.is_whitespace())
        && !c.is_control()
}

/// What `encoding/json` writes: keys sorted, `<`, `>` and `&` escaped.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match Num::of(n) {
            Num::Int(int) => out.push_str(&int.to_string()),
            Num::Float(float) => out.push_str(&shortest(float, -6, 21, false)),
        },
        Value::String(s) => write_json_string(s, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (i, (key, item)) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
    }
}

fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The shortest decimal that reads back as `float`; with an exponent below `low` or from `high` on. Go's `%v`
/// pads the exponent to two digits, its JSON does not.
fn shortest(float: f64, low: i32, high: i32, pad: bool) -> String {
    if float == 0.0 {
        return if float.is_sign_negative() { "-0".to_string() } else { "0".to_string() };
    }
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent >= low && exponent < high {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let digits = exponent.unsigned_abs();
    if pad { format!("{mantissa}e{sign}{digits:02}") } else { format!("{mantissa}e{sign}{digits}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_are_quoted_as_percent_q_does() {
        assert_eq!(quote("a\"b\\c\n\u{1}é\u{200b}\u{301}"), "\"a\\\"b\\\\c\\n\\x01é\\u200b\u{301}\"");
    }

    #[test]
    fn floats_are_written_as_percent_v_does() {
        let v = |f| number(Num::Float(f));
        let written = [100.0, 1.5, 1e5, 1e6, 123_456_789.0, 1e21, 0.0001, 0.00001].map(v);
        assert_eq!(written.join(" "), "100 1.5 100000 1e+06 1.23456789e+08 1e+21 0.0001 1e-05");
    }

    #[test]
    fn json_is_sorted_and_escaped() {
        assert_eq!(json(&json!({"b": 1.0, "a": "<&>"})), r#"{"a":"\u003c\u0026\u003e","b":1}"#);
    }
}
