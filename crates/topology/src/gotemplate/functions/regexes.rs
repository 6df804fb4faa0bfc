//! Regular expressions. Go's syntax is that of the crate `regex`, apart from rare classes.

use super::{Args, Function, Outcome, text};
use gotmpl::Value;
use regex::{Regex, RegexBuilder};

/// The most that a compiled expression may take, in bytes.
const MOST: usize = 1 << 20;

pub(super) const TABLE: &[(&str, Function)] = &[
    ("regexMatch", matches),
    ("mustRegexMatch", matches),
    ("regexFind", find),
    ("mustRegexFind", find),
    ("regexFindAll", find_all),
    ("mustRegexFindAll", find_all),
    ("regexReplaceAll", |args| replace(args, false)),
    ("mustRegexReplaceAll", |args| replace(args, false)),
    ("regexReplaceAllLiteral", |args| replace(args, true)),
    ("mustRegexReplaceAllLiteral", |args| replace(args, true)),
    ("regexSplit", split),
    ("mustRegexSplit", split),
    ("regexQuoteMeta", |args| Ok(text(quote(args.text(0)?)))),
];

fn expression(args: Args<'_>) -> gotmpl::Result<Regex> {
    let written = args.text(0)?;
    RegexBuilder::new(written).size_limit(MOST).build().map_err(|error| args.fail(error))
}

fn matches(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    Ok(Value::Bool(expression(args)?.is_match(args.text(1)?)))
}

fn find(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    Ok(text(expression(args)?.find(args.text(1)?).map_or("", |found| found.as_str())))
}

fn find_all(args: Args<'_>) -> Outcome {
    args.exactly(3)?;
    let most = usize::try_from(args.int(2)?).unwrap_or(usize::MAX);
    let expression = expression(args)?;
    args.listed(expression.find_iter(args.text(1)?).take(most).map(|found| text(found.as_str())).collect())
}

fn replace(args: Args<'_>, is_literal: bool) -> Outcome {
    args.exactly(3)?;
    let (expression, subject, new) = (expression(args)?, args.text(1)?, args.text(2)?);
    args.fits(subject.len().saturating_add(1).saturating_mul(new.len().max(1)))?;
    let replaced = if is_literal {
        expression.replace_all(subject, regex::NoExpand(new))
    } else {
        expression.replace_all(subject, new)
    };
    args.fits(replaced.len())?;
    Ok(text(replaced.into_owned()))
}

fn split(args: Args<'_>) -> Outcome {
    args.exactly(3)?;
    let (expression, subject, most) = (expression(args)?, args.text(1)?, args.int(2)?);
    let parts: Vec<Value> = match usize::try_from(most) {
        Ok(most) => expression.splitn(subject, most).map(text).collect(),
        Err(_) => expression.split(subject).map(text).collect(),
    };
    args.listed(parts)
}

/// Go escapes fewer characters than `regex::escape` does.
fn quote(written: &str) -> String {
    let mut out = String::with_capacity(written.len());
    for character in written.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}
