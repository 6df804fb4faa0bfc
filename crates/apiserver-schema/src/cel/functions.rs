//! The functions of rules: those of `cel` and `kube-cel`, with a `matches` that accepts Go's patterns and a `size` that
//! counts characters, and in addition `type`, `dyn` and `bool`.

use super::{budget, lists, made, policy};
use crate::pattern;
use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Opaque, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, Value};
use std::sync::Arc;

/// Every name a kube-apiserver knows that can be called here, so that a rule that calls another is refused when it
/// is written. Qualified names have their qualifier.
#[rustfmt::skip]
const KNOWN: &[&str] = &[
    "add", "asApproximateFloat", "asInteger", "bool", "bytes", "charAt", "cidr", "compareTo", "contains",
    "containsCIDR", "containsIP", "distinct", "double", "duration", "dyn", "endsWith", "family", "find",
    "findAll", "first", "flatten", "format", "format.byte", "format.date", "format.datetime",
    "format.dns1035Label", "format.dns1035LabelPrefix", "format.dns1123Label", "format.dns1123LabelPrefix",
    "format.dns1123Subdomain", "format.dns1123SubdomainPrefix", "format.labelValue", "format.named",
    "format.qualifiedName", "format.uri", "format.uuid", "getDate", "getDayOfMonth", "getDayOfWeek",
    "getDayOfYear", "getEscapedPath", "getFullYear", "getHost", "getHostname", "getHours",
    "getMilliseconds", "getMinutes", "getMonth", "getPort", "getQuery", "getScheme", "getSeconds",
    "hasValue", "indexOf", "int", "ip", "ip.isCanonical", "isCIDR", "isCIDRv4", "isCIDRv6",
    "isGlobalUnicast", "isGreaterThan", "isInteger", "isIP", "isIPv4", "isIPv6", "isLessThan",
    "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isQuantity", "isSemver", "isSorted",
    "isUnspecified", "isURL", "join", "last", "lastIndexOf", "lists.range", "lowerAscii", "major", "masked",
    "matches", "max", "min", "minor", "optional.none", "optional.of", "optional.ofNonZeroValue", "or",
    "orValue", "patch", "prefixLength", "quantity", "replace", "reverse", "semver", "sets.contains",
    "sets.equivalent", "sets.intersects", "sign", "size", "slice", "sort", "split", "startsWith", "string",
    "strings.quote", "sub", "substring", "sum", "timestamp", "trim", "type", "uint", "upperAscii", "url",
    "validate", "value",
];

/// Names of types, which stand for themselves in a rule.
pub(super) const TYPES: [&str; 9] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];

/// Macros a kube-apiserver knows and the evaluator does not.
const MISSING: [&str; 9] = [
    "all",
    "exists",
    "existsOne",
    "exists_one",
    "map",
    "sortBy",
    "transformList",
    "transformMap",
    "transformMapEntry",
];

/// Why a rule may not call `name`, if it may not.
pub(super) fn refusal(name: &str) -> Option<String> {
    if KNOWN.contains(&name) {
        None
    } else if MISSING.contains(&name) {
        Some(format!("{name} with these arguments is not supported"))
    } else {
        Some(format!("undeclared reference to '{name}' (in container '')"))
    }
}

/// Whether `name(a)` is the same as `a.name()`.
pub(super) fn is_method(name: &str) -> bool {
    matches!(name, "bool" | "bytes" | "double" | "int" | "ip" | "semver" | "size" | "string" | "uint")
}

/// A type as a value.
#[derive(Debug, PartialEq, Eq)]
struct TypeName(&'static str);

impl Opaque for TypeName {
    fn runtime_type_name(&self) -> &str {
        "type"
    }
}

/// Whether a value is true or false. No rule can write the name.
pub(super) const IS_BOOL: &str = "#isBool";
/// An optional value as a list of one or none: unlike the optional value, it survives being given a name.
pub(super) const OPENED: &str = "#opened";

thread_local! {
    // Registering a hundred functions costs more than most rules do.
    static BASE: Context<'static> = base();
}

/// Calls `with` with the context in which all rules are evaluated. It holds no variables but the types.
pub(super) fn with_base<T>(with: impl FnOnce(&Context<'static>) -> T) -> T {
    BASE.with(with)
}

fn base() -> Context<'static> {
    let mut context = Context::default().with_all();
    budget::register(&mut context);
    lists::register(&mut context);
    made::register(&mut context);
    policy::register(&mut context);
    context.add_function("matches", matches);
    context.add_function("type", |value: Value| type_of(&value));
    context.add_function("dyn", |value: Value| Ok::<_, ExecutionError>(value));
    context.add_function("bool", |This(value): This<Value>| to_bool(&value));
    context.add_function("size", |This(value): This<Value>| size(&value));
    context.add_function(IS_BOOL, |This(value): This<Value>| {
        Ok::<_, ExecutionError>(matches!(value, Value::Bool(_)))
    });
    context.add_function(OPENED, |value: Value| opened(&value));
    for name in TYPES {
        let value = Value::Opaque(Arc::new(TypeName(name)));
        context.add_variable_from_value(name, value.clone());
        // As expressions of admission call it.
        context.add_variable_from_value(format!("#{name}"), value);
    }
    context
}

fn opened(value: &Value) -> Result<Value, ExecutionError> {
    let optional = <&OptionalValue>::try_from(value)?;
    Ok(Value::List(Arc::new(optional.value().cloned().into_iter().collect())))
}

// The evaluator hands over values, not references.
#[allow(clippy::needless_pass_by_value)]
fn matches(This(text): This<Arc<String>>, written: Arc<String>) -> Result<bool, ExecutionError> {
    let pattern = pattern::recall(&written).map_err(|why| ExecutionError::function_error("matches", why))?;
    Ok(pattern.is_match(&text))
}

/// The evaluator's own counts bytes of a string where CEL counts characters.
fn size(value: &Value) -> Result<Value, ExecutionError> {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    i64::try_from(size).map(Value::Int).map_err(|error| ExecutionError::function_error("size", error))
}

fn to_bool(value: &Value) -> Result<Value, ExecutionError> {
    match value {
        Value::Bool(flag) => Ok(Value::Bool(*flag)),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(Value::Bool(false)),
            _ => Err(ExecutionError::function_error("bool", "string parse error")),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn type_of(value: &Value) -> Result<Value, ExecutionError> {
    let name = match value {
        Value::Bool(_) => "bool",
        Value::Bytes(_) => "bytes",
        Value::Float(_) => "double",
        Value::Int(_) => "int",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        Value::String(_) => "string",
        Value::UInt(_) => "uint",
        _ => return Err(ExecutionError::function_error("type", "the type of this value has no name here")),
    };
    Ok(Value::Opaque(Arc::new(TypeName(name))))
}
