//! Functions of templates: those of sprig that upstream allows, as far as they are supported.
//!
//! Arguments have Go's types: where sprig takes a text or an `int`, another type is an error, and a number of a variable
//! is a `float64`. Functions that change their argument are left out, because values are shared.

mod defaults;
mod encoding;
mod lists;
mod maps;
mod numbers;
mod regexes;
mod strings;
mod versions;

use super::fuel::Fuel;
use super::{Dialect, MOST_OUTPUT, format, rewrite};
use gotmpl::{FuncMap, TemplateError, Value, ValueFunc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Functions of Go itself.
pub(super) const BUILTIN: &[&str] = &[
    "and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print",
    "printf", "println", "slice", "urlquery",
];

/// Functions of sprig that upstream leaves out, because their result depends on the environment.
pub(super) const NOT_HERMETIC: &[&str] = &[
    "date",
    "date_in_zone",
    "date_modify",
    "now",
    "htmlDate",
    "htmlDateInZone",
    "dateInZone",
    "dateModify",
    "randAlphaNum",
    "randAlpha",
    "randAscii",
    "randNumeric",
    "randBytes",
    "uuidv4",
    "env",
    "expandenv",
    "getHostByName",
];

const CLOCK: &str = "its result depends on the clock or on times, which variables do not have";
const CHANCE: &str = "its result is random, so the objects would change with every reconcile";
const SHARED: &str = "it changes its argument, which others share; use merge, dict or omit";
const SECRETS: &str = "keys and passwords do not belong into templates";
const RARE: &str = "no ClusterClass is known to need it";

/// Functions of sprig that upstream has and this crate does not, with the reason.
pub(super) const UNSUPPORTED: &[(&str, &str)] = &[
    ("ago", CLOCK),
    ("duration", CLOCK),
    ("durationRound", CLOCK),
    ("must_date_modify", CLOCK),
    ("mustDateModify", CLOCK),
    ("mustToDate", CLOCK),
    ("toDate", CLOCK),
    ("unixEpoch", CLOCK),
    ("randInt", CHANCE),
    ("shuffle", CHANCE),
    ("set", SHARED),
    ("unset", SHARED),
    ("bcrypt", SECRETS),
    ("htpasswd", SECRETS),
    ("genPrivateKey", SECRETS),
    ("derivePassword", SECRETS),
    ("buildCustomCert", SECRETS),
    ("genCA", SECRETS),
    ("genCAWithKey", SECRETS),
    ("genSelfSignedCert", SECRETS),
    ("genSelfSignedCertWithKey", SECRETS),
    ("genSignedCert", SECRETS),
    ("genSignedCertWithKey", SECRETS),
    ("encryptAES", SECRETS),
    ("decryptAES", SECRETS),
    ("abbrev", RARE),
    ("abbrevboth", RARE),
    ("initials", RARE),
    ("swapcase", RARE),
    ("snakecase", RARE),
    ("camelcase", RARE),
    ("kebabcase", RARE),
    ("wrap", RARE),
    ("wrapWith", RARE),
    ("sha1sum", RARE),
    ("adler32sum", RARE),
    ("b32enc", RARE),
    ("b32dec", RARE),
    ("add1f", RARE),
    ("addf", RARE),
    ("subf", RARE),
    ("divf", RARE),
    ("mulf", RARE),
    ("base", RARE),
    ("dir", RARE),
    ("clean", RARE),
    ("ext", RARE),
    ("isAbs", RARE),
    ("osBase", RARE),
    ("osClean", RARE),
    ("osDir", RARE),
    ("osExt", RARE),
    ("osIsAbs", RARE),
    ("urlParse", RARE),
    ("urlJoin", RARE),
];

/// The most entries of a list that a function makes.
const MOST_ITEMS: usize = 10_000;

type Outcome = gotmpl::Result<Value>;
type Function = fn(Args<'_>) -> Outcome;

/// Whether sprig has the function and this crate, too.
pub(super) fn is_known(name: &str) -> bool {
    tables().any(|(known, _)| *known == name)
}

fn tables() -> impl Iterator<Item = &'static (&'static str, Function)> {
    [
        defaults::TABLE,
        encoding::TABLE,
        lists::TABLE,
        maps::TABLE,
        numbers::TABLE,
        regexes::TABLE,
        strings::TABLE,
        versions::TABLE,
    ]
    .into_iter()
    .flatten()
}

/// All functions of a dialect. Every call uses fuel.
pub(super) fn all(dialect: Dialect, fuel: &Fuel) -> FuncMap {
    let own: [(&'static str, Function); 5] = [
        (rewrite::STEP, |args| Ok(args.any(0)?.clone())),
        (rewrite::PRINT, |args| match args.any(0)? {
            Value::Nil => Ok(Value::Nil),
            value => Ok(text(format::text(value))),
        }),
        (rewrite::NIL, |_| Ok(Value::Nil)),
        ("print", |args| Ok(text(print(args.values)))),
        ("println", |args| {
            let texts: Vec<String> = args.values.iter().map(format::text).collect();
            Ok(text(texts.join(" ") + "\n"))
        }),
    ];
    let sprig = tables().copied().filter(|_| dialect == Dialect::Values);
    let functions = own.into_iter().chain(sprig);
    functions.map(|(name, function)| (name.to_string(), limited(name, function, fuel.clone()))).collect()
}

fn limited(name: &'static str, function: Function, fuel: Fuel) -> ValueFunc {
    Arc::new(move |values: &[Value]| {
        let value = function(Args { name, values })?;
        fuel.spend(&value)?;
        Ok(value)
    })
}

/// Go's `Sprint`: a space between two values of which neither is a text.
fn print(values: &[Value]) -> String {
    let mut out = String::new();
    for (i, value) in values.iter().enumerate() {
        let is_text = |value: &Value| matches!(value, Value::String(_));
        if i > 0 && !is_text(value) && !is_text(&values[i - 1]) {
            out.push(' ');
        }
        out.push_str(&format::text(value));
    }
    out
}

/// The arguments of a call.
#[derive(Clone, Copy)]
struct Args<'a> {
    name: &'static str,
    values: &'a [Value],
}

impl<'a> Args<'a> {
    fn fail(&self, why: impl std::fmt::Display) -> TemplateError {
        TemplateError::Exec(format!("error calling {}: {why}", self.name))
    }

    fn exactly(&self, count: usize) -> gotmpl::Result<()> {
        self.between(count, count)
    }

    fn at_least(&self, count: usize) -> gotmpl::Result<()> {
        self.between(count, usize::MAX)
    }

    fn between(&self, least: usize, most: usize) -> gotmpl::Result<()> {
        let got = self.values.len();
        if (least..=most).contains(&got) {
            return Ok(());
        }
        Err(self.fail(format!("wrong number of arguments: {got}")))
    }

    fn any(&self, i: usize) -> gotmpl::Result<&'a Value> {
        self.values.get(i).ok_or_else(|| self.fail(format!("argument {} is missing", i + 1)))
    }

    /// The arguments from `i` on.
    fn rest(&self, i: usize) -> &'a [Value] {
        self.values.get(i..).unwrap_or_default()
    }

    fn wrong(&self, i: usize, expected: &str, value: &Value) -> TemplateError {
        self.fail(format!("argument {} must be {expected}, not {}", i + 1, kind(value)))
    }

    fn text(&self, i: usize) -> gotmpl::Result<&'a str> {
        match self.any(i)? {
            Value::String(text) => Ok(text),
            other => Err(self.wrong(i, "a string", other)),
        }
    }

    fn int(&self, i: usize) -> gotmpl::Result<i64> {
        match self.any(i)? {
            Value::Int(number) => Ok(*number),
            other => Err(self.wrong(i, "an int; use the function int for a variable", other)),
        }
    }

    fn truth(&self, i: usize) -> gotmpl::Result<bool> {
        match self.any(i)? {
            Value::Bool(truth) => Ok(*truth),
            other => Err(self.wrong(i, "a bool", other)),
        }
    }

    fn list(&self, i: usize) -> gotmpl::Result<&'a [Value]> {
        match self.any(i)? {
            Value::List(items) => Ok(items),
            other => Err(self.wrong(i, "a list", other)),
        }
    }

    fn map(&self, i: usize) -> gotmpl::Result<&'a BTreeMap<Arc<str>, Value>> {
        match self.any(i)? {
            Value::Map(entries) => Ok(entries),
            other => Err(self.wrong(i, "a map", other)),
        }
    }

    /// A list of at most so many items as a function may make.
    fn listed(&self, items: Vec<Value>) -> Outcome {
        if items.len() > MOST_ITEMS {
            return Err(self.fail(format!("the list has more than {MOST_ITEMS} items")));
        }
        Ok(Value::List(items.into()))
    }

    /// Checks the length of a text before it is made.
    fn fits(&self, length: usize) -> gotmpl::Result<()> {
        if length > MOST_OUTPUT {
            return Err(self.fail(format!("the text is longer than {MOST_OUTPUT} bytes")));
        }
        Ok(())
    }
}

fn text(text: impl Into<Arc<str>>) -> Value {
    Value::String(text.into())
}

fn mapped(entries: BTreeMap<Arc<str>, Value>) -> Value {
    Value::Map(Arc::new(entries))
}

/// Go's name of the kind of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Uint(_) => "uint64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Function(_) => "func",
    }
}
