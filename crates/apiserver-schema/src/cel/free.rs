//! Standalone expressions that see whole objects without a schema: the match conditions of webhooks.

use super::budget::Budget;
use super::{functions, rewrite, source};
use kube_cel::cel::Value as Cel;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// A compiled boolean expression.
#[derive(Debug)]
pub struct Expression(IdedExpr);

impl Expression {
    /// Compiles an expression that may use these variables.
    ///
    /// # Errors
    /// Why the expression cannot be compiled.
    pub fn compile(source: &str, variables: &[&str]) -> Result<Expression, String> {
        rewrite::rewrite_free(source::parse(source)?, variables).map(Expression)
    }

    /// Evaluates the expression with these values.
    ///
    /// # Errors
    /// Why the evaluation failed, or that it exceeded the cost limit.
    pub fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, String> {
        let evaluated = Budget::default().run(|| {
            functions::with_base(|base| {
                let mut context = base.new_inner_scope();
                for (name, value) in variables {
                    context.add_variable_from_value(*name, plain(value));
                }
                context.resolve(&self.0)
            })
        });
        match evaluated {
            Err(_) => Err("the expression costs too much to evaluate".to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(Cel::Bool(truth))) => Ok(truth),
            Ok(Ok(_)) => Err("the expression is neither true nor false".to_string()),
        }
    }
}

/// A value without a schema.
fn plain(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Cel::Int(number),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(name, value)| (Key::String(Arc::new(name.clone())), plain(value)));
            Cel::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
        }
    }
}
