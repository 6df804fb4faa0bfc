//! Infers types of expressions of admission from schemas. All other types are dynamic: an error that is reported here
//! is an error of a kube-apiserver too; the converse does not hold.

use super::names::escape;
use super::{policy, source};
use crate::raw::Raw;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};
use serde_json::Value;

/// A type.
#[derive(Clone, Debug)]
enum Type<'a> {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    Timestamp,
    Duration,
    List(Box<Type<'a>>),
    Map(Box<Type<'a>>),
    /// Fields are those of the schema. The flag says that it is a whole object, with metadata.
    Object(Raw<'a>, bool),
}

/// What expressions of a policy are checked against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schemas<'a> {
    /// Of `object` and `oldObject`.
    pub object: Option<&'a Value>,
    /// Of `params`.
    pub params: Option<&'a Value>,
}

/// What an expression must evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// True or false.
    Bool,
    /// A string.
    Text,
    /// A string or null.
    TextOrNull,
    /// Anything.
    Anything,
    /// An object that the expression constructs.
    Configuration,
    /// A list of operations that the expression constructs.
    JsonPatch,
}

impl Returns {
    /// Whether an expression may construct objects and operations.
    pub(super) fn is_constructed(self) -> bool {
        matches!(self, Returns::Configuration | Returns::JsonPatch)
    }
}

/// Checks the types of an expression; `variables` are those of its policy, with their expressions.
///
/// # Errors
/// What does not fit, in upstream's words.
pub fn check_types(source: &str, variables: &[(&str, &str)], schemas: Schemas<'_>) -> Result<(), String> {
    let mut known: Vec<(&str, Type<'_>)> = Vec::new();
    for (name, source) in variables {
        let parsed = source::parse(source).unwrap_or_default();
        let inferred = Scope::new(schemas, &known).infer(&parsed).unwrap_or(Type::Dyn);
        known.push((name, inferred));
    }
    Scope::new(schemas, &known).infer(&source::parse(source)?).map(drop)
}

/// Says that an expression without schemas can never return what it must.
pub(super) fn wrong_return(parsed: &IdedExpr, returns: Returns) -> Option<String> {
    let wrong = |wanted: &str, found: String| format!("must evaluate to {wanted} but got {found}");
    let constructed = |wanted: &str| {
        let found = definite(parsed).filter(|found| found != wanted)?;
        Some(mismatch(parsed).unwrap_or_else(|| wrong(wanted, found)))
    };
    let inferred = Scope::new(Schemas::default(), &[]).infer(parsed).unwrap_or(Type::Dyn);
    let (fits, wanted) = match returns {
        Returns::Anything => return None,
        Returns::Configuration => return constructed("Object"),
        Returns::JsonPatch => return constructed("list(JSONPatch)"),
        Returns::Bool => (matches!(inferred, Type::Bool), "bool"),
        Returns::Text => (matches!(inferred, Type::Text), "string"),
        Returns::TextOrNull => (matches!(inferred, Type::Text | Type::Null), "one of [string null_type]"),
    };
    let found = || definite(parsed).unwrap_or_else(|| inferred.name());
    (!fits && !matches!(inferred, Type::Dyn)).then(|| wrong(wanted, found()))
}

/// Says that the two sides of a condition have types that are known to be different.
fn mismatch(expr: &IdedExpr) -> Option<String> {
    let Expr::Call(call) = &expr.expr else { return None };
    let [_, yes, no] = call.args.as_slice() else { return None };
    let (yes, no) = (definite(yes)?, definite(no)?);
    let is_known = |name: &String| !name.contains("dyn");
    let differs = call.func_name == operators::CONDITIONAL && yes != no && is_known(&yes) && is_known(&no);
    differs.then(|| format!("found no matching overload for '_?_:_' applied to '(bool, {yes}, {no})'"))
}

/// The name of the type of an expression of a mutation; nothing where only a type checker could tell it.
pub(super) fn definite(expr: &IdedExpr) -> Option<String> {
    match &expr.expr {
        Expr::Struct(construction) => Some(construction.type_name.trim_start_matches('.').to_string()),
        Expr::Ident(name) => {
            matches!(name.as_str(), "object" | "oldObject" | "params").then(|| "dyn".to_string())
        }
        // Fields of objects may be anything, also of those that an expression constructs.
        Expr::Select(select) if select.test => Some("bool".to_string()),
        Expr::Select(select) => definite(&select.operand).map(|_| "dyn".to_string()),
        Expr::List(list) => {
            let items: Option<Vec<String>> = list.elements.iter().map(definite).collect();
            let items = items?;
            let first = items.first().filter(|first| items.iter().all(|item| item == *first));
            Some(format!("list({})", first.map_or("dyn", String::as_str)))
        }
        Expr::Call(call) if call.func_name == operators::CONDITIONAL => {
            let [_, yes, no] = call.args.as_slice() else { return None };
            let is_empty = |it: &IdedExpr| matches!(&it.expr, Expr::List(list) if list.elements.is_empty());
            match (definite(yes)?, definite(no)?) {
                (yes, no) if yes == no => Some(yes),
                (found, _) if is_empty(no) && found.starts_with("list(") => Some(found),
                (_, found) if is_empty(yes) && found.starts_with("list(") => Some(found),
                _ => Some("dyn".to_string()),
            }
        }
        Expr::Call(call) if call.func_name == operators::ADD => {
            let [left, right] = call.args.as_slice() else { return None };
            let (left, right) = (definite(left)?, definite(right)?);
            (left == right).then_some(left)
        }
        Expr::Literal(LiteralValue::Null) => Some("null_type".to_string()),
        Expr::Literal(_) => Scope::new(Schemas::default(), &[]).infer(expr).ok().map(|ty| ty.name()),
        Expr::Map(_) => Some("map".to_string()),
        Expr::Call(call) => {
            let is_text = matches!(call.func_name.as_str(), "string" | "lowerAscii" | "upperAscii" | "trim");
            is_text.then(|| "string".to_string())
        }
        // `map` adds a list of one to the list so far.
        Expr::Comprehension(it) => match (&it.accu_init.expr, &it.loop_step.expr) {
            (Expr::List(start), Expr::Call(step)) if start.elements.is_empty() => {
                step.args.last().filter(|_| step.func_name == operators::ADD).and_then(definite)
            }
            _ => None,
        },
        Expr::Unspecified => None,
    }
}

impl<'a> Type<'a> {
    fn of(schema: Raw<'a>, resource: bool) -> Type<'a> {
        if schema.flag("x-kubernetes-int-or-string") {
            return Type::Dyn;
        }
        match schema.ty() {
            "boolean" => Type::Bool,
            "integer" => Type::Int,
            "number" => Type::Double,
            "string" => match schema.text("format") {
                "byte" => Type::Bytes,
                "date" | "date-time" => Type::Timestamp,
                "duration" => Type::Duration,
                _ => Type::Text,
            },
            "array" => {
                Type::List(Box::new(schema.schema("items").map_or(Type::Dyn, |items| Type::of(items, false))))
            }
            "object" => match schema.additional_schema() {
                Some(entry) => Type::Map(Box::new(Type::of(entry, false))),
                None if schema.flag("x-kubernetes-preserve-unknown-fields") => Type::Dyn,
                None if schema.properties().next().is_none() => Type::Dyn,
                None => Type::Object(schema, resource || schema.flag("x-kubernetes-embedded-resource")),
            },
            _ => Type::Dyn,
        }
    }

    fn name(&self) -> String {
        match self {
            Type::Dyn => "dyn".into(),
            Type::Bool => "bool".into(),
            Type::Int => "int".into(),
            Type::Uint => "uint".into(),
            Type::Double => "double".into(),
            Type::Text => "string".into(),
            Type::Bytes => "bytes".into(),
            Type::Null => "null".into(),
            Type::Timestamp => "timestamp".into(),
            Type::Duration => "duration".into(),
            Type::List(item) => format!("list({})", item.name()),
            Type::Map(entry) => format!("map(string, {})", entry.name()),
            Type::Object(..) => "object".into(),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Type::Int | Type::Uint | Type::Double)
    }

    fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    fn is_same(&self, other: &Type<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(&other.clone().forget())
            || self.is_dyn()
            || other.is_dyn()
    }

    /// The same kind of type without a schema, to compare with.
    fn forget<'b>(self) -> Type<'b> {
        match self {
            Type::Dyn => Type::Dyn,
            Type::Bool => Type::Bool,
            Type::Int => Type::Int,
            Type::Uint => Type::Uint,
            Type::Double => Type::Double,
            Type::Text => Type::Text,
            Type::Bytes => Type::Bytes,
            Type::Null => Type::Null,
            Type::Timestamp => Type::Timestamp,
            Type::Duration => Type::Duration,
            Type::List(item) => Type::List(Box::new(item.forget())),
            Type::Map(entry) => Type::Map(Box::new(entry.forget())),
            Type::Object(..) => Type::Map(Box::new(Type::Dyn)),
        }
    }
}

/// The names in scope with their types, the innermost last.
struct Scope<'a, 'v> {
    names: Vec<(String, Type<'a>)>,
    variables: &'v [(&'v str, Type<'a>)],
}

impl<'a, 'v> Scope<'a, 'v> {
    fn new(schemas: Schemas<'a>, variables: &'v [(&'v str, Type<'a>)]) -> Self {
        let whole =
            |schema: Option<&'a Value>| schema.map_or(Type::Dyn, |schema| Type::of(Raw::new(schema), true));
        let names = ["object", "oldObject"].map(|name| (name.to_string(), whole(schemas.object)));
        let names = names.into_iter().chain([("params".to_string(), whole(schemas.params))]);
        Scope { names: names.collect(), variables }
    }

    fn infer(&mut self, expr: &IdedExpr) -> Result<Type<'a>, String> {
        Ok(match &expr.expr {
            Expr::Ident(name) => {
                let found = self.names.iter().rev().find(|(known, _)| known == name);
                found.map_or(Type::Dyn, |(_, ty)| ty.clone())
            }
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::UInt(_) => Type::Uint,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::String(_) => Type::Text,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Null => Type::Null,
            },
            Expr::Select(select) => self.select(select)?,
            Expr::Call(call) => self.call(call)?,
            Expr::List(list) => {
                for element in &list.elements {
                    self.infer(element)?;
                }
                Type::List(Box::new(Type::Dyn))
            }
            Expr::Map(_) => Type::Map(Box::new(Type::Dyn)),
            Expr::Comprehension(it) => self.comprehension(it)?,
            Expr::Struct(construction) => {
                for entry in &construction.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        self.infer(&field.value)?;
                    }
                }
                Type::Dyn
            }
            Expr::Unspecified => Type::Dyn,
        })
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Type<'a>, String> {
        if let Expr::Ident(name) = &select.operand.expr
            && name == policy::VARIABLES
        {
            let found = self.variables.iter().find(|(known, _)| *known == select.field);
            let ty = found.map_or(Type::Dyn, |(_, ty)| ty.clone());
            return Ok(if select.test { Type::Bool } else { ty });
        }
        let ty = match self.infer(&select.operand)? {
            Type::Object(schema, resource) => match select.field.as_str() {
                "metadata" if resource => Type::Dyn,
                "apiVersion" | "kind" if resource => Type::Text,
                field => {
                    let mut properties = schema.properties();
                    let found =
                        properties.find(|(name, _)| *name == field || escape(name).as_deref() == Some(field));
                    let (_, schema) = found.ok_or_else(|| format!("undefined field '{field}'"))?;
                    Type::of(schema, false)
                }
            },
            Type::Map(entry) => *entry,
            Type::Dyn | Type::Null => Type::Dyn,
            other => return Err(format!("type '{}' does not support field selection", other.name())),
        };
        Ok(if select.test { Type::Bool } else { ty })
    }

    fn call(&mut self, call: &CallExpr) -> Result<Type<'a>, String> {
        let target = call.target.as_deref().map(|target| self.infer(target)).transpose()?;
        // The names of macros that the parser leaves as calls are not in scope.
        if matches!(call.func_name.as_str(), "optMap" | "optFlatMap") {
            return Ok(Type::Dyn);
        }
        let args = call.args.iter().map(|arg| self.infer(arg)).collect::<Result<Vec<_>, _>>()?;
        let mismatch = || {
            let names: Vec<String> = args.iter().map(Type::name).collect();
            format!("found no matching overload for '{}' applied to '({})'", call.func_name, names.join(", "))
        };
        let (left, right) = match args.as_slice() {
            [left, right] => (left, right),
            _ => (&Type::Dyn, &Type::Dyn),
        };
        let either_dyn = left.is_dyn() || right.is_dyn();
        let is = |ty: &Type<'_>, wanted: fn(&Type<'_>) -> bool| ty.is_dyn() || wanted(ty);
        let is_bool = |ty: &Type<'_>| is(ty, |ty| matches!(ty, Type::Bool));
        let (fits, ty) = match call.func_name.as_str() {
            operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
                (args.iter().all(is_bool), Type::Bool)
            }
            operators::GREATER | operators::GREATER_EQUALS | operators::LESS | operators::LESS_EQUALS => {
                let ordered = |ty: &Type<'_>| {
                    is(ty, |ty| !matches!(ty, Type::Null | Type::List(_) | Type::Map(_) | Type::Object(..)))
                };
                let same = left.is_same(right) || left.is_number() && right.is_number();
                (ordered(left) && ordered(right) && same, Type::Bool)
            }
            operators::EQUALS | operators::NOT_EQUALS => {
                let plain = |ty: &Type<'_>| {
                    matches!(
                        ty,
                        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Text | Type::Bytes
                    )
                };
                (!(plain(left) && plain(right)) || left.is_same(right), Type::Bool)
            }
            operators::ADD => {
                let time = |ty: &Type<'_>| matches!(ty, Type::Timestamp | Type::Duration);
                let adds = !matches!(left, Type::Bool | Type::Null | Type::Map(_) | Type::Object(..));
                let fits = either_dyn || time(left) && time(right) || adds && left.is_same(right);
                (fits, if either_dyn || time(left) { Type::Dyn } else { left.clone() })
            }
            operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO => {
                let time = |ty: &Type<'_>| matches!(ty, Type::Timestamp | Type::Duration);
                let fits = either_dyn || time(left) && time(right) || left.is_number() && left.is_same(right);
                (fits, if either_dyn || time(left) { Type::Dyn } else { left.clone() })
            }
            operators::IN => (true, Type::Bool),
            operators::INDEX => {
                let ty = match left {
                    Type::List(item) | Type::Map(item) => (**item).clone(),
                    _ => Type::Dyn,
                };
                (true, ty)
            }
            operators::CONDITIONAL => {
                let (condition, ty) = match args.as_slice() {
                    [condition, yes, no] if yes.is_same(no) && !yes.is_dyn() => (condition, no.clone()),
                    [condition, ..] => (condition, Type::Dyn),
                    [] => (&Type::Dyn, Type::Dyn),
                };
                (is_bool(condition), ty)
            }
            "size" | "int" => (true, Type::Int),
            "string" | "lowerAscii" | "upperAscii" | "trim" | "format" | "join" => (true, Type::Text),
            "double" => (true, Type::Double),
            "startsWith" | "endsWith" | "contains" | "matches" => {
                let fits = target.as_ref().is_none_or(|target| is(target, |ty| matches!(ty, Type::Text)));
                let is_text = |ty: &Type<'_>| is(ty, |ty| matches!(ty, Type::Text));
                let is_sure = target.as_ref().is_some_and(|target| matches!(target, Type::Text));
                (!is_sure || fits && args.iter().all(is_text), Type::Bool)
            }
            _ => (true, Type::Dyn),
        };
        if fits { Ok(ty) } else { Err(mismatch()) }
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> Result<Type<'a>, String> {
        let item = match self.infer(&it.iter_range)? {
            Type::List(item) => *item,
            Type::Map(_) => Type::Text,
            Type::Dyn | Type::Object(..) => Type::Dyn,
            other => {
                return Err(format!(
                    "expression of type '{}' cannot be range of a comprehension",
                    other.name()
                ));
            }
        };
        let start = self.infer(&it.accu_init)?;
        let outer = self.names.len();
        self.names.push((it.iter_var.clone(), item));
        self.names.push((it.accu_var.clone(), start));
        let parts = [&it.loop_cond, &it.loop_step];
        let inferred = parts.into_iter().try_for_each(|part| self.infer(part).map(drop));
        let result = inferred.and_then(|()| self.infer(&it.result));
        self.names.truncate(outer);
        result
    }
}
