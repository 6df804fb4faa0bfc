//! Functions about empty values, kinds and JSON.

use super::super::value::{from_json, to_json};
use super::{Args, Function, Outcome, kind, text};
use gotmpl::Value;

pub(super) const TABLE: &[(&str, Function)] = &[
    ("default", default),
    ("empty", |args| Ok(Value::Bool(!args.any(0)?.is_truthy()))),
    ("coalesce", |args| {
        Ok(args.values.iter().find(|value| value.is_truthy()).cloned().unwrap_or(Value::Nil))
    }),
    ("all", |args| Ok(Value::Bool(args.values.iter().all(Value::is_truthy)))),
    ("any", |args| Ok(Value::Bool(args.values.iter().any(Value::is_truthy)))),
    ("ternary", |args| {
        args.exactly(3)?;
        Ok(args.any(if args.truth(2)? { 0 } else { 1 })?.clone())
    }),
    ("fail", |args| Err(args.fail(args.text(0)?))),
    ("hello", |_| Ok(text("Hello!"))),
    ("deepCopy", |args| Ok(args.any(0)?.clone())),
    ("mustDeepCopy", |args| Ok(args.any(0)?.clone())),
    ("deepEqual", |args| {
        args.exactly(2)?;
        Ok(Value::Bool(args.any(0)? == args.any(1)?))
    }),
    ("kindOf", |args| Ok(text(kind(args.any(0)?)))),
    ("kindIs", |args| Ok(Value::Bool(args.text(0)? == kind(args.any(1)?)))),
    ("typeOf", |args| Ok(text(type_of(args.any(0)?)))),
    ("typeIs", |args| Ok(Value::Bool(args.text(0)? == type_of(args.any(1)?)))),
    ("typeIsLike", |args| Ok(Value::Bool(args.text(0)? == type_of(args.any(1)?)))),
    ("fromJson", |args| Ok(read(args).unwrap_or(Value::Nil))),
    ("mustFromJson", read),
    ("toJson", |args| write(args, false, true)),
    ("mustToJson", |args| write(args, false, true)),
    ("toRawJson", |args| write(args, false, false)),
    ("mustToRawJson", |args| write(args, false, false)),
    ("toPrettyJson", |args| write(args, true, true)),
    ("mustToPrettyJson", |args| write(args, true, true)),
];

/// The second argument, or the first if the second is empty.
fn default(args: Args<'_>) -> Outcome {
    args.at_least(1)?;
    let given = args.rest(1).first().filter(|given| given.is_truthy());
    Ok(given.unwrap_or(args.any(0)?).clone())
}

/// Go's name of the type that a value has in a template.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Nil => "<nil>",
        Value::List(_) => "[]interface {}",
        Value::Map(_) => "map[string]interface {}",
        other => kind(other),
    }
}

fn read(args: Args<'_>) -> Outcome {
    let json: serde_json::Value = serde_json::from_str(args.text(0)?).map_err(|error| args.fail(error))?;
    Ok(from_json(&json))
}

/// JSON as Go writes it: sorted keys, and three characters of HTML as escapes.
fn write(args: Args<'_>, is_pretty: bool, escapes: bool) -> Outcome {
    let json = to_json(args.any(0)?).ok_or_else(|| args.fail("the value is not JSON"))?;
    let written = if is_pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) };
    let mut written = written.map_err(|error| args.fail(error))?;
    if escapes {
        for (character, escape) in [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")] {
            written = written.replace(character, escape);
        }
    }
    args.fits(written.len())?;
    Ok(text(written))
}
