//! Rules in the Common Expression Language (`x-kubernetes-validations`). Parsing, evaluation and Kubernetes' functions
//! come from `cel` and `kube-cel`. This module decides which values a rule sees, when it runs and the message of its
//! failure. A rule that cannot be compiled makes its schema invalid, and a rule that cannot be evaluated makes the
//! object invalid: nothing fails open.

mod authorizer;
mod budget;
mod check;
mod estimate;
mod field_path;
mod functions;
mod lists;
mod made;
mod names;
mod policy;
mod rewrite;
mod source;
mod types;
mod values;

pub use authorizer::{Authorizer, Decision, Question};
pub use budget::Budget;
pub(crate) use check::check;
pub(crate) use estimate::check as check_cost;
pub use field_path::field_at;
pub(crate) use field_path::resolve as resolve_field_path;
pub use policy::{Environment, Evaluator, Expression, Failure, Objects, Outcome, Session, Uses};
pub use types::{Returns, Schemas, check_types};

use crate::error::ErrorKind;
use crate::raw::Raw;
use kube_cel::cel::common::ast::IdedExpr;
use rewrite::Place;
use serde_json::Value;

/// The reasons a rule may give.
pub(crate) const REASONS: [(&str, ErrorKind); 4] = [
    ("FieldValueDuplicate", ErrorKind::Duplicate),
    ("FieldValueForbidden", ErrorKind::Forbidden),
    ("FieldValueInvalid", ErrorKind::Invalid),
    ("FieldValueRequired", ErrorKind::Required),
];

/// One compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    source: String,
    message: String,
    message_expression: Option<IdedExpr>,
    kind: ErrorKind,
    /// Appended to the path of the value; empty if the rule names none.
    field_path: String,
    expression: IdedExpr,
    uses_old_self: bool,
    optional_old_self: bool,
}

/// Why a rule could not be compiled: the part of it, and the reason.
pub(crate) type RuleError = (&'static str, String);

impl Rule {
    /// Compiles one entry of `x-kubernetes-validations`, written in `schema`, which is that of a whole object if it
    /// is a `resource`.
    pub(crate) fn compile(written: &Value, schema: Raw<'_>, resource: bool) -> Result<Rule, RuleError> {
        let rule = Raw::new(written);
        let optional_old_self = rule.flag("optionalOldSelf");
        let resource = resource || schema.flag("x-kubernetes-embedded-resource");
        let place = Place { schema, resource, optional_old_self };
        let failed = |why: String| ("rule", format!("compilation failed: {why}"));
        let parsed = source::parse(rule.text("rule")).map_err(failed)?;
        // As it is written: also in a part that can never decide anything.
        let uses_old_self = rewrite::mentions(&parsed, rewrite::OLD_SELF);
        let expression = rewrite::rewrite(parsed, place).map_err(failed)?;
        let message_expression = match rule.text("messageExpression") {
            "" => None,
            text => Some(expression_for_message(text, place)?),
        };
        let kind = rule.get("reason").and_then(Value::as_str).and_then(reason).unwrap_or(ErrorKind::Invalid);
        let field_path = match rule.text("fieldPath") {
            "" => String::new(),
            path => resolve_field_path(path, schema).map_err(|why| ("fieldPath", why))?,
        };
        Ok(Rule {
            source: rule.text("rule").trim().to_string(),
            message: rule.text("message").trim().to_string(),
            message_expression,
            kind,
            field_path,
            expression,
            uses_old_self,
            optional_old_self,
        })
    }

    /// Whether the rule compares with what was there before.
    pub(crate) fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// What to call the rule in a text.
    fn title(&self) -> &str {
        if self.message.is_empty() { &self.source } else { &self.message }
    }
}

fn reason(name: &str) -> Option<ErrorKind> {
    REASONS.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind)
}

fn expression(source: &str, place: Place<'_>) -> Result<IdedExpr, String> {
    rewrite::rewrite(source::parse(source)?, place)
}

fn expression_for_message(source: &str, place: Place<'_>) -> Result<IdedExpr, RuleError> {
    // Upstream evaluates messages with the plain old value even where the rule sees an optional one.
    expression(source, Place { optional_old_self: false, ..place })
        .map_err(|why| ("messageExpression", format!("messageExpression compilation failed: {why}")))
}
