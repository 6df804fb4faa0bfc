//! Functions about maps.

use super::super::format;
use super::{Args, Function, Outcome, mapped, text};
use gotmpl::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const TABLE: &[(&str, Function)] = &[
    ("dict", dict),
    ("get", |args| Ok(args.map(0)?.get(args.text(1)?).cloned().unwrap_or_else(|| text("")))),
    ("hasKey", |args| Ok(Value::Bool(args.map(0)?.contains_key(args.text(1)?)))),
    ("pluck", pluck),
    ("keys", |args| {
        let mut keys = Vec::new();
        for i in 0..args.values.len() {
            keys.extend(args.map(i)?.keys().map(|key| Value::String(key.clone())));
        }
        args.listed(keys)
    }),
    ("values", |args| args.listed(args.map(0)?.values().cloned().collect())),
    ("pick", |args| chosen(args, true)),
    ("omit", |args| chosen(args, false)),
    ("merge", |args| merged(args, false)),
    ("mustMerge", |args| merged(args, false)),
    ("mergeOverwrite", |args| merged(args, true)),
    ("mustMergeOverwrite", |args| merged(args, true)),
    ("dig", dig),
];

fn dict(args: Args<'_>) -> Outcome {
    let pairs = args.values.chunks(2).map(|pair| {
        let value = pair.get(1).cloned().unwrap_or_else(|| text(""));
        (Arc::from(format::text(&pair[0])), value)
    });
    Ok(mapped(pairs.collect()))
}

fn pluck(args: Args<'_>) -> Outcome {
    let key = args.text(0)?;
    let mut found = Vec::new();
    for i in 1..args.values.len() {
        found.extend(args.map(i)?.get(key).cloned());
    }
    args.listed(found)
}

fn chosen(args: Args<'_>, named: bool) -> Outcome {
    let mut names = Vec::new();
    for i in 1..args.values.len() {
        names.push(args.text(i)?);
    }
    let entries = args.map(0)?.iter().filter(|(key, _)| names.contains(&key.as_ref()) == named);
    Ok(mapped(entries.map(|(key, value)| (key.clone(), value.clone())).collect()))
}

/// Merges maps into a copy of the first. An entry is set if it is empty, or always but to null when `overwrites`.
fn merged(args: Args<'_>, overwrites: bool) -> Outcome {
    args.at_least(1)?;
    let mut target = args.map(0)?.clone();
    for i in 1..args.values.len() {
        merge(&mut target, args.map(i)?, overwrites);
    }
    Ok(mapped(target))
}

fn merge(target: &mut BTreeMap<Arc<str>, Value>, source: &BTreeMap<Arc<str>, Value>, overwrites: bool) {
    for (key, value) in source {
        match (target.get_mut(key), value) {
            (Some(Value::Map(inner)), Value::Map(source)) => merge(Arc::make_mut(inner), source, overwrites),
            (Some(old), value) if !old.is_truthy() || (overwrites && !matches!(value, Value::Nil)) => {
                *old = value.clone();
            }
            (Some(_), _) => {}
            (None, value) => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}

fn dig(args: Args<'_>) -> Outcome {
    args.at_least(3)?;
    let last = args.values.len() - 1;
    let mut found = args.any(last)?;
    for i in 0..last - 1 {
        let Value::Map(entries) = found else {
            return Err(args.fail(format!("{:?} is not in a map", args.text(i)?)));
        };
        match entries.get(args.text(i)?) {
            Some(value) => found = value,
            None => return Ok(args.any(last - 1)?.clone()),
        }
    }
    Ok(found.clone())
}
