//! Functions about lists.

use super::super::format;
use super::numbers::to_int;
use super::{Args, Function, Outcome, text};
use gotmpl::Value;

pub(super) const TABLE: &[(&str, Function)] = &[
    ("list", |args| args.listed(args.values.to_vec())),
    ("tuple", |args| args.listed(args.values.to_vec())),
    ("append", push),
    ("push", push),
    ("mustAppend", push),
    ("mustPush", push),
    ("prepend", prepend),
    ("mustPrepend", prepend),
    ("first", |args| Ok(args.list(0)?.first().cloned().unwrap_or(Value::Nil))),
    ("mustFirst", |args| Ok(args.list(0)?.first().cloned().unwrap_or(Value::Nil))),
    ("last", |args| Ok(args.list(0)?.last().cloned().unwrap_or(Value::Nil))),
    ("mustLast", |args| Ok(args.list(0)?.last().cloned().unwrap_or(Value::Nil))),
    ("rest", rest),
    ("mustRest", rest),
    ("initial", initial),
    ("mustInitial", initial),
    ("reverse", reverse),
    ("mustReverse", reverse),
    ("compact", compact),
    ("mustCompact", compact),
    ("uniq", uniq),
    ("mustUniq", uniq),
    ("without", without),
    ("mustWithout", without),
    ("has", has),
    ("mustHas", has),
    ("slice", slice),
    ("mustSlice", slice),
    ("concat", concat),
    ("chunk", chunk),
    ("mustChunk", chunk),
    ("sortAlpha", |args| {
        let mut texts = texts(args.any(0)?);
        texts.sort();
        args.listed(texts.into_iter().map(text).collect())
    }),
    ("join", |args| {
        args.exactly(2)?;
        let joined = texts(args.any(1)?).join(args.text(0)?);
        args.fits(joined.len())?;
        Ok(text(joined))
    }),
    ("toStrings", |args| args.listed(texts(args.any(0)?).into_iter().map(text).collect())),
];

/// Every item as text, without nulls; another value than a list as a list of itself.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Nil => Vec::new(),
        Value::List(items) => {
            items.iter().filter(|item| !matches!(item, Value::Nil)).map(format::text).collect()
        }
        other => vec![format::text(other)],
    }
}

fn push(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    let mut items = args.list(0)?.to_vec();
    items.push(args.any(1)?.clone());
    args.listed(items)
}

fn prepend(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    let mut items = vec![args.any(1)?.clone()];
    items.extend_from_slice(args.list(0)?);
    args.listed(items)
}

fn rest(args: Args<'_>) -> Outcome {
    args.listed(args.list(0)?.iter().skip(1).cloned().collect())
}

fn initial(args: Args<'_>) -> Outcome {
    let items = args.list(0)?;
    args.listed(items[..items.len().saturating_sub(1)].to_vec())
}

fn reverse(args: Args<'_>) -> Outcome {
    args.listed(args.list(0)?.iter().rev().cloned().collect())
}

fn compact(args: Args<'_>) -> Outcome {
    args.listed(args.list(0)?.iter().filter(|item| item.is_truthy()).cloned().collect())
}

fn uniq(args: Args<'_>) -> Outcome {
    let mut items: Vec<Value> = Vec::new();
    for item in args.list(0)? {
        if !items.contains(item) {
            items.push(item.clone());
        }
    }
    args.listed(items)
}

fn without(args: Args<'_>) -> Outcome {
    let unwanted = args.rest(1);
    args.listed(args.list(0)?.iter().filter(|item| !unwanted.contains(item)).cloned().collect())
}

fn has(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    if matches!(args.any(1)?, Value::Nil) {
        return Ok(Value::Bool(false));
    }
    Ok(Value::Bool(args.list(1)?.contains(args.any(0)?)))
}

fn slice(args: Args<'_>) -> Outcome {
    args.between(1, 3)?;
    let items = args.list(0)?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let bound = |i: usize, otherwise: usize| match args.values.get(i) {
        Some(value) => usize::try_from(to_int(value)).map_err(|_| args.fail("an index is negative")),
        None => Ok(otherwise),
    };
    let (start, end) = (bound(1, 0)?, bound(2, items.len())?);
    let part = items.get(start..end).ok_or_else(|| args.fail("an index is out of range"))?;
    args.listed(part.to_vec())
}

fn concat(args: Args<'_>) -> Outcome {
    let mut items = Vec::new();
    for i in 0..args.values.len() {
        items.extend_from_slice(args.list(i)?);
    }
    args.listed(items)
}

fn chunk(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    let size = usize::try_from(args.int(0)?).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| args.fail("the size must be positive"))?;
    args.listed(args.list(1)?.chunks(size).map(|part| Value::List(part.into())).collect())
}
