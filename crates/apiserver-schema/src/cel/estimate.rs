//! Estimates the worst-case cost of rules when their schema is written. A loop over an unbounded list inside another
//! one is rejected before an object exists.
//!
//! It is a lower bound of upstream's estimate: unknown sizes count as one, and so do most functions. A kube-apiserver
//! rejects everything that is rejected here; the converse does not hold.

use super::{names::escape, source};
use crate::error::{ErrorKind, FieldError};
use crate::path::{child, index, key};
use crate::raw::Raw;
use kube_cel::cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use serde_json::Value;

/// For one rule, as upstream.
const PER_RULE: f64 = 10_000_000.0;
/// For all rules of a schema, as upstream.
const PER_SCHEMA: f64 = 100_000_000.0;
/// No object is larger.
const LARGEST: f64 = (3 << 20) as f64;

/// Every rule of a schema that may cost too much.
pub(crate) fn check(schema: Raw<'_>, at: &str) -> Vec<FieldError> {
    let mut found = Found { total: 0.0, errors: Vec::new() };
    found.walk(schema, at, 1.0);
    if found.errors.is_empty() && found.total > PER_SCHEMA {
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        found.errors.push(too_much(at.to_string(), what, found.total / PER_SCHEMA));
    }
    found.errors
}

struct Found {
    total: f64,
    errors: Vec<FieldError>,
}

impl Found {
    /// `times` is how often the schema can occur in an object.
    fn walk(&mut self, schema: Raw<'_>, at: &str, times: f64) {
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
        for (i, rule) in rules.into_iter().flatten().enumerate() {
            // What cannot be parsed has been refused.
            let Ok(rule) = source::parse(Raw::new(rule).text("rule")) else { continue };
            let variables = ["self", "oldSelf"].map(|name| (name.to_string(), Some(schema)));
            let cost = Scope(variables.to_vec()).cost(&rule).0 * times;
            self.total += cost;
            if cost > PER_RULE {
                let at = child(&index(&child(at, "x-kubernetes-validations"), i), "rule");
                self.errors.push(too_much(at, "estimated rule cost", cost / PER_RULE));
            }
        }
        for (name, property) in schema.properties() {
            self.walk(property, &key(&child(at, "properties"), name), times);
        }
        if let Some(entry) = schema.additional_schema() {
            self.walk(entry, &child(at, "additionalProperties"), times * most(schema));
        }
        if let Some(items) = schema.schema("items") {
            self.walk(items, &child(at, "items"), times * most(schema));
        }
    }
}

fn too_much(at: String, what: &str, factor: f64) -> FieldError {
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_string(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    let why = format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    );
    FieldError::new(at, ErrorKind::Forbidden, None, why)
}

/// How many elements a list or map, or characters a text, can have; one where that makes no difference.
fn most(schema: Raw<'_>) -> f64 {
    let limit = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    match schema.ty() {
        "array" => limit("maxItems").unwrap_or_else(|| {
            schema.schema("items").map_or(1.0, |items| (LARGEST - 2.0) / (least(items) + 1.0))
        }),
        "object" => match schema.additional_schema() {
            Some(entry) => limit("maxProperties").unwrap_or_else(|| (LARGEST - 2.0) / (least(entry) + 6.0)),
            None => 1.0,
        },
        "string" if schema.get("enum").is_some() || !schema.text("format").is_empty() => 1.0,
        "string" => limit("maxLength").unwrap_or(LARGEST - 2.0),
        _ => 1.0,
    }
}

/// The shortest text of a value.
fn least(schema: Raw<'_>) -> f64 {
    match schema.ty() {
        "string" | "array" => 2.0,
        "boolean" => 4.0,
        "object" => {
            let required = schema.texts("required");
            let needed =
                schema.properties().filter(|(name, _)| required.iter().any(|wanted| wanted == *name));
            2.0 + needed.map(|(name, property)| name.len() as f64 + 4.0 + least(property)).sum::<f64>()
        }
        _ => 1.0,
    }
}

/// The variables that an expression may speak of, with their schemas where they are known.
struct Scope<'a>(Vec<(String, Option<Raw<'a>>)>);

impl<'a> Scope<'a> {
    /// What an expression costs at worst, and the schema of its value if it is part of the object.
    fn cost(&mut self, expr: &IdedExpr) -> (f64, Option<Raw<'a>>) {
        match &expr.expr {
            Expr::Ident(name) => {
                let found = self.0.iter().rev().find(|(known, _)| known == name);
                (1.0, found.and_then(|(_, schema)| *schema))
            }
            Expr::Select(select) => {
                let (cost, schema) = self.cost(&select.operand);
                let property = |schema: Raw<'a>| {
                    let named =
                        |(name, _): &(&String, Raw<'a>)| escape(name).as_deref() == Some(&select.field);
                    let found = schema.properties().find(named).map(|(_, schema)| schema);
                    found.or_else(|| schema.additional_schema())
                };
                (cost + 1.0, schema.filter(|_| !select.test).and_then(property))
            }
            Expr::Call(call) => {
                let target = call.target.as_deref().map(|target| self.cost(target));
                let args: Vec<_> = call.args.iter().map(|arg| self.cost(arg)).collect();
                let all =
                    target.map_or(0.0, |(cost, _)| cost) + args.iter().map(|(cost, _)| cost).sum::<f64>();
                let text = target.and_then(|(_, schema)| schema).map_or(0.0, most);
                match (call.func_name.as_str(), args.as_slice()) {
                    (operators::CONDITIONAL, [condition, yes, no]) => (condition.0 + yes.0.max(no.0), None),
                    (operators::INDEX, [(_, Some(list)), _]) => {
                        (all + 1.0, list.schema("items").or_else(|| list.additional_schema()))
                    }
                    (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::NOT_STRICTLY_FALSE, _) => {
                        (all, None)
                    }
                    ("contains" | "matches", _) => (all + 1.0 + text / 10.0, None),
                    _ => (all + 1.0, None),
                }
            }
            Expr::List(list) => (list.elements.iter().map(|element| self.cost(element).0).sum(), None),
            Expr::Map(map) => {
                let entries = map.entries.iter().map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => self.cost(&entry.key).0 + self.cost(&entry.value).0,
                    EntryExpr::StructField(_) => 0.0,
                });
                (entries.sum(), None)
            }
            Expr::Comprehension(comprehension) => (self.comprehension(comprehension), None),
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => (0.0, None),
        }
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> f64 {
        let (range, schema) = self.cost(&it.iter_range);
        let before = range + self.cost(&it.accu_init).0;
        let turns = schema.map_or(1.0, most);
        let outer = self.0.len();
        self.0.push((it.iter_var.clone(), schema.and_then(|schema| schema.schema("items"))));
        self.0.push((it.accu_var.clone(), None));
        let turn = self.cost(&it.loop_cond).0 + self.cost(&it.loop_step).0;
        let result = self.cost(&it.result).0;
        self.0.truncate(outer);
        before + turns * turn + result
    }
}
