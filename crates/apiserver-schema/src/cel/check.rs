//! Evaluates the rules of a schema on the values that they apply to. Transition rules run if there is an old value;
//! failures of unchanged values are tolerated.

use super::budget::{Budget, Overrun};
use super::rewrite::{OLD_SELF, SELF, SORTED, mentions};
use super::values::View;
use super::{Rule, functions};
use crate::correlate::{CorrelatedItems, Correlation, OldItems};
use crate::error::{ErrorKind, FieldError, MOST_ERRORS, ROOT};
use crate::node::Node;
use crate::path::{child, index, key};
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use serde_json::Value;
use std::sync::Arc;

/// The longest text a `messageExpression` may give.
const LONGEST_MESSAGE: usize = 5 << 10;

/// What a value is compared with to tell whether it changed.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    current: Option<Correlation<'a>>,
    parent: Option<Correlation<'a>>,
}

impl<'a> Ratchet<'a> {
    fn tolerates(self) -> bool {
        self.current.or(self.parent).is_some_and(|correlation| correlation.unchanged())
    }

    fn key(self, name: &str) -> Ratchet<'a> {
        match self.current {
            None => self,
            // Both objects were converted to one version before they came here, so these cannot tell a change.
            Some(_) if self.parent.is_none() && (name == "apiVersion" || name == "kind") => {
                Ratchet::default()
            }
            Some(current) => Ratchet { current: current.key(name), parent: Some(current) },
        }
    }

    /// The item at `i` of the list; `items` are those of `current`.
    fn item(self, items: Option<&CorrelatedItems<'a>>, i: usize) -> Ratchet<'a> {
        match self.current {
            None => self,
            Some(current) => Ratchet { current: items.and_then(|items| items.get(i)), parent: Some(current) },
        }
    }
}

/// Runs all rules on `value`. `resource` says that it is a whole object; `prefix` is where it was found.
pub(crate) fn check(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    correlation: Option<Correlation<'_>>,
    resource: bool,
    prefix: &str,
) -> Vec<FieldError> {
    let mut found = Found::default();
    let ratchet = Ratchet { current: correlation, parent: None };
    walk(node, value, old, ratchet, resource, prefix, &mut found);
    found.errors
}

/// What came of the rules so far, and what the rest may cost.
#[derive(Default)]
struct Found {
    errors: Vec<FieldError>,
    budget: Budget,
    /// A limit was met: no more rules.
    over: bool,
}

fn walk(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    ratchet: Ratchet<'_>,
    resource: bool,
    at: &str,
    found: &mut Found,
) {
    if value.is_null() || !node.has_rules || found.over {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    rules(node, value, old, ratchet, resource || node.embedded, at, found);
    match value {
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            let before = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let (before, correlated) =
                (OldItems::new(node, before), ratchet.current.map(|current| current.items()));
            for (i, item) in items.iter().enumerate() {
                let (old, ratchet) = (before.of(item), ratchet.item(correlated.as_ref(), i));
                walk(schema, item, old, ratchet, false, &index(at, i), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let old = old.and_then(|old| old.get(name));
                if let Some(schema) = node.additional_schema() {
                    walk(schema, field, old, ratchet.key(name), false, &key(at, name), found);
                }
                if let Some(schema) = node.properties.get(name) {
                    walk(schema, field, old, ratchet.key(name), false, &child(at, name), found);
                }
            }
        }
        _ => {}
    }
}

fn rules(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    ratchet: Ratchet<'_>,
    resource: bool,
    at: &str,
    found: &mut Found,
) {
    let input = Input { node, value, old, resource };
    for rule in &node.rules {
        if found.errors.len() >= MOST_ERRORS {
            found.over = true;
            found.errors.push(FieldError::more_errors(ROOT));
            return;
        }
        if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
            continue;
        }
        let ty = node.ty.map_or("", |ty| ty.name());
        let evaluated = found.budget.run(|| input.evaluate(&rule.expression, rule.optional_old_self));
        let evaluated = match evaluated {
            Ok(evaluated) => evaluated,
            Err(overrun) => {
                found.over = true;
                found.errors.push(FieldError::invalid(at, ty, too_costly(overrun, rule)));
                return;
            }
        };
        match evaluated {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => {
                if rule.uses_old_self || !ratchet.tolerates() {
                    let failure = failure(rule, &input, at, &mut found.budget);
                    found.errors.push(failure);
                }
            }
            Ok(_) => {
                let why = format!("cel expression must evaluate to a bool: {}", rule.title());
                found.errors.push(FieldError::invalid(at, ty, why));
            }
            Err(error) => found.errors.push(FieldError::invalid(at, ty, failed_to_run(&error, rule))),
        }
    }
}

/// The words for a rule that costs more than may be spent.
fn too_costly(overrun: Overrun, rule: &Rule) -> String {
    match overrun {
        Overrun::Call => format!(
            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost \
             exceeds limit for rule: {}",
            rule.title()
        ),
        Overrun::Object => {
            "validation failed due to running out of cost budget, no further validation rules will be run"
                .to_string()
        }
    }
}

fn failure(rule: &Rule, input: &Input<'_>, at: &str, budget: &mut Budget) -> FieldError {
    let at = if rule.field_path.is_empty() { at.to_string() } else { child(at, &rule.field_path) };
    let written = || {
        if rule.message.is_empty() { format!("failed rule: {}", rule.source) } else { rule.message.clone() }
    };
    let expressed = rule.message_expression.as_ref();
    // A message that costs too much is none.
    let expressed = expressed.and_then(|message| budget.run(|| input.message(message)).ok().flatten());
    let detail = expressed.unwrap_or_else(written);
    // Objects and lists would drown the message.
    let compound = input.value.is_object() || input.value.is_array();
    let shown = (!compound).then(|| input.value.clone());
    match rule.kind {
        ErrorKind::Forbidden | ErrorKind::Required => FieldError::new(at, rule.kind, None, detail),
        ErrorKind::Duplicate => FieldError::new(at, rule.kind, shown, ""),
        _ => FieldError::new(at, ErrorKind::Invalid, shown, detail),
    }
}

/// The words for a rule that could not be evaluated.
fn failed_to_run(error: &ExecutionError, rule: &Rule) -> String {
    let title = rule.title();
    match why(error) {
        Some(why) => format!("{why} evaluating rule: {title}"),
        None => format!(
            "'no such overload': call arguments did not match a supported operator, function or macro \
             signature for rule: {title}"
        ),
    }
}

/// Why an evaluation failed, in upstream's words; nothing if an operation does not exist for the types of its operands.
pub(super) fn why(error: &ExecutionError) -> Option<String> {
    Some(match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(Cel::Int(i)) => format!("index out of bounds: {i}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_string(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_string(),
        ExecutionError::Overflow(..) => "integer overflow".to_string(),
        ExecutionError::FunctionError { function, message } => match function.as_str() {
            "int" | "uint" | "double" | "bool" if message.starts_with("string parse error") => {
                format!("type conversion error from 'string' to '{function}'")
            }
            "duration" => "type conversion error from 'string' to 'google.protobuf.Duration'".to_string(),
            "timestamp" => "type conversion error from 'string' to 'google.protobuf.Timestamp'".to_string(),
            "min" | "max" if message.ends_with("empty list") => format!("{function} called on empty list"),
            "substring" | "charAt" => match out_of_range(message) {
                Some(index) => format!("index out of range: {index}"),
                None => message.clone(),
            },
            _ => message.clone(),
        },
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. } => return None,
        other => other.to_string(),
    })
}

/// The index in a message of the evaluator that says that there is no such place in a text.
fn out_of_range(message: &str) -> Option<&str> {
    let (before, _) = message.split_once(" out of range")?;
    before.rsplit(' ').next()
}

/// What a rule sees.
struct Input<'a> {
    node: &'a Node,
    value: &'a Value,
    old: Option<&'a Value>,
    resource: bool,
}

impl Input<'_> {
    fn evaluate(&self, expression: &IdedExpr, optional_old_self: bool) -> Result<Cel, ExecutionError> {
        functions::with_base(|base| {
            let mut context = base.new_inner_scope();
            for (name, sorted) in SORTED {
                if mentions(expression, name) {
                    self.bind(&mut context, name, name, View { sorted: false }, optional_old_self);
                    self.bind(&mut context, sorted, name, View { sorted: true }, optional_old_self);
                }
            }
            context.resolve(expression)
        })
    }

    fn bind(&self, context: &mut Context<'_>, variable: &str, name: &str, view: View, optional: bool) {
        if name == SELF {
            context.add_variable_from_value(variable, view.of(self.node, self.value, self.resource));
            return;
        }
        debug_assert_eq!(name, OLD_SELF);
        let old = self.old.map(|old| view.of(self.node, old, self.resource));
        if optional {
            let old = old.map_or_else(OptionalValue::none, OptionalValue::of);
            context.add_variable_from_value(variable, Cel::Opaque(Arc::new(old)));
        } else if let Some(old) = old {
            context.add_variable_from_value(variable, old);
        }
    }

    /// The text a `messageExpression` gives, unless it fails or gives none that can be shown.
    fn message(&self, expression: &IdedExpr) -> Option<String> {
        let Ok(Cel::String(text)) = self.evaluate(expression, false) else { return None };
        let text = text.trim();
        (!text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n')).then(|| text.to_string())
    }
}
