//! Functions about texts.

use super::super::format;
use super::{Args, Function, Outcome, mapped, text};
use gotmpl::Value;
use std::fmt::Write;
use std::sync::Arc;

pub(super) const TABLE: &[(&str, Function)] = &[
    ("toString", |args| Ok(text(format::text(args.any(0)?)))),
    ("trim", |args| Ok(text(args.text(0)?.trim()))),
    ("upper", |args| Ok(text(args.text(0)?.to_uppercase()))),
    ("lower", |args| Ok(text(args.text(0)?.to_lowercase()))),
    ("title", |args| Ok(text(title(args.text(0)?)))),
    ("untitle", |args| Ok(text(untitle(args.text(0)?)))),
    ("nospace", |args| Ok(text(args.text(0)?.replace(char::is_whitespace, "")))),
    ("trunc", trunc),
    ("substr", substr),
    ("repeat", repeat),
    ("trimAll", trim_all),
    ("trimall", trim_all),
    ("trimSuffix", |args| {
        let (suffix, subject) = (args.text(0)?, args.text(1)?);
        Ok(text(subject.strip_suffix(suffix).unwrap_or(subject)))
    }),
    ("trimPrefix", |args| {
        let (prefix, subject) = (args.text(0)?, args.text(1)?);
        Ok(text(subject.strip_prefix(prefix).unwrap_or(subject)))
    }),
    ("contains", |args| Ok(Value::Bool(args.text(1)?.contains(args.text(0)?)))),
    ("hasPrefix", |args| Ok(Value::Bool(args.text(1)?.starts_with(args.text(0)?)))),
    ("hasSuffix", |args| Ok(Value::Bool(args.text(1)?.ends_with(args.text(0)?)))),
    ("quote", |args| Ok(text(each(args, |value| quoted(&format::text(value)))))),
    ("squote", |args| Ok(text(each(args, |value| format!("'{}'", format::text(value)))))),
    ("cat", |args| Ok(text(each(args, format::text)))),
    ("indent", |args| Ok(text(indented(args)?))),
    ("nindent", |args| Ok(text(format!("\n{}", indented(args)?)))),
    ("replace", replace),
    ("plural", |args| {
        args.exactly(3)?;
        Ok(text(args.text(if args.int(2)? == 1 { 0 } else { 1 })?))
    }),
    ("split", |args| Ok(numbered(args.text(1)?.split(args.text(0)?)))),
    ("splitn", |args| {
        let most = usize::try_from(args.int(1)?).unwrap_or(usize::MAX);
        Ok(numbered(args.text(2)?.splitn(most, args.text(0)?)))
    }),
    ("splitList", |args| args.listed(args.text(1)?.split(args.text(0)?).map(text).collect())),
];

/// Every argument that is not null, as text, with spaces between.
fn each(args: Args<'_>, write: impl Fn(&Value) -> String) -> String {
    let given = args.values.iter().filter(|value| !matches!(value, Value::Nil));
    given.map(write).collect::<Vec<_>>().join(" ")
}

/// Go's `%q`.
fn quoted(written: &str) -> String {
    let mut out = String::from("\"");
    for character in written.chars() {
        let _ = match character {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\u{7}' => out.write_str("\\a"),
            '\u{8}' => out.write_str("\\b"),
            '\u{b}' => out.write_str("\\v"),
            '\u{c}' => out.write_str("\\f"),
            other if other.is_control() => match u32::from(other) {
                code @ 0..0x80 => write!(out, "\\x{code:02x}"),
                code => write!(out, "\\u{code:04x}"),
            },
            other => out.write_char(other),
        };
    }
    out.push('"');
    out
}

fn title(written: &str) -> String {
    let mut is_start = true;
    let mut out = String::with_capacity(written.len());
    for character in written.chars() {
        if is_start {
            out.extend(character.to_uppercase());
        } else {
            out.push(character);
        }
        is_start = !(character.is_alphanumeric() || character == '_' || character == '\'');
    }
    out
}

/// The first letter of every word in lower case.
fn untitle(written: &str) -> String {
    let mut is_start = true;
    let mut out = String::with_capacity(written.len());
    for character in written.chars() {
        if is_start {
            out.extend(character.to_lowercase());
        } else {
            out.push(character);
        }
        is_start = character.is_whitespace();
    }
    out
}

/// A part of a text by bytes, as in Go.
fn part<'a>(args: Args<'_>, subject: &'a str, start: usize, end: usize) -> gotmpl::Result<&'a str> {
    subject.get(start..end).ok_or_else(|| args.fail("an index is out of range, or within a character"))
}

fn trunc(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    let (count, subject) = (args.int(0)?, args.text(1)?);
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let found = if size >= subject.len() {
        subject
    } else if count < 0 {
        part(args, subject, subject.len() - size, subject.len())?
    } else {
        part(args, subject, 0, size)?
    };
    Ok(text(found))
}

fn substr(args: Args<'_>) -> Outcome {
    args.exactly(3)?;
    let (start, end, subject) = (usize::try_from(args.int(0)?), usize::try_from(args.int(1)?), args.text(2)?);
    let whole = subject.len();
    let found = match (start, end) {
        (Err(_), Err(_)) => return Err(args.fail("an index is out of range, or within a character")),
        (Err(_), Ok(end)) => part(args, subject, 0, end)?,
        (Ok(start), Ok(end)) if end <= whole => part(args, subject, start, end)?,
        (Ok(start), _) => part(args, subject, start, whole)?,
    };
    Ok(text(found))
}

fn repeat(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    let count = usize::try_from(args.int(0)?).map_err(|_| args.fail("the count is negative"))?;
    args.fits(args.text(1)?.len().saturating_mul(count))?;
    Ok(text(args.text(1)?.repeat(count)))
}

fn trim_all(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    let unwanted = args.text(0)?;
    Ok(text(args.text(1)?.trim_matches(|character| unwanted.contains(character))))
}

fn indented(args: Args<'_>) -> gotmpl::Result<String> {
    args.exactly(2)?;
    let count = usize::try_from(args.int(0)?).map_err(|_| args.fail("the count is negative"))?;
    let subject = args.text(1)?;
    let lines = subject.matches('\n').count() + 1;
    args.fits(count.saturating_mul(lines).saturating_add(subject.len()))?;
    let pad = " ".repeat(count);
    Ok(format!("{pad}{}", subject.replace('\n', &format!("\n{pad}"))))
}

fn replace(args: Args<'_>) -> Outcome {
    args.exactly(3)?;
    let (old, new, subject) = (args.text(0)?, args.text(1)?, args.text(2)?);
    let found = subject.matches(old).count();
    args.fits(found.saturating_mul(new.len()).saturating_add(subject.len()))?;
    Ok(text(subject.replace(old, new)))
}

/// Parts as a map with the keys `_0`, `_1` and so on.
fn numbered<'a>(parts: impl Iterator<Item = &'a str>) -> Value {
    mapped(parts.enumerate().map(|(i, part)| (Arc::from(format!("_{i}")), text(part))).collect())
}
