//! Expressions that stand alone and see whole objects as they are: the conditions of webhooks.

use super::budget::Budget;
use super::{functions, rewrite};
use kube_cel::cel::Value as Cel;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::parser::Parser;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// A compiled expression that is true or false.
#[derive(Debug)]
pub struct Expression(IdedExpr);

impl Expression {
    /// Compiles an expression that may speak of these variables.
    ///
    /// # Errors
    /// Says what cannot be compiled.
    pub fn compile(source: &str, variables: &[&str]) -> Result<Expression, String> {
        let parsed = Parser::new().enable_optional_syntax(true).parse(source);
        let parsed = parsed.map_err(|errors| errors.to_string().replace('\n', " "))?;
        rewrite::rewrite_free(parsed, variables).map(Expression)
    }

    /// Whether it is true of these values.
    ///
    /// # Errors
    /// Says why it cannot be evaluated, or that it costs too much.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_of_webhooks() {
        let object =
            json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"n": 3, "l": ["p", "q"]}});
        let request = json!({"userInfo": {"username": "system:node:a"}, "operation": "CREATE"});
        let holds = |source: &str| {
            let variables = ["object", "oldObject", "request"];
            let null = Value::Null;
            Expression::compile(source, &variables)?.holds(&[
                ("object", &object),
                ("oldObject", &null),
                ("request", &request),
            ])
        };
        for (source, expected) in [
            ("object.spec.n > 2", Ok(true)),
            ("oldObject == null", Ok(true)),
            ("has(object.spec.absent)", Ok(false)),
            ("!request.userInfo.username.startsWith('system:node:')", Ok(false)),
            ("object.spec.l.exists(i, i == 'q') && object.metadata.labels['x'] == '1'", Ok(true)),
        ] {
            assert_eq!(holds(source), expected, "{source}");
        }
        for source in
            ["self.a", "object.spec.n +", "object.spec.absent == 1", "object.spec.n", "nope(object)"]
        {
            assert!(holds(source).is_err(), "{source}");
        }
    }

    #[test]
    fn nothing_takes_for_ever() {
        let list: Vec<i64> = (0..2000).collect();
        let holds =
            |source: &str, list: &Value| Expression::compile(source, &["l"]).unwrap().holds(&[("l", list)]);
        let many = json!(list);
        let endless = "l.all(a, l.all(b, l.all(c, l.all(d, a + b + c + d >= 0))))";
        assert!(holds(endless, &many).unwrap_err().contains("costs too much"));
        assert_eq!(holds("l.all(a, a >= 0) && l.map(a, a + 1).size() == 2000", &many), Ok(true));
        let long = json!("x".repeat(1000));
        let growing = format!("optional.of(l){}.value().size() > 0", ".optMap(a, a + a)".repeat(40));
        assert!(holds(&growing, &long).is_err());
        assert!(holds("lists.range(2000000000).size() > 0", &long).is_err());
        let wide = format!("l{} != ''", ".replace('x', 'xxxxxxxxxx')".repeat(12));
        assert!(holds(&wide, &long).is_err());
    }
}
