//! CEL expressions and structural schemas, and objects that they judge.

use capstan_apiserver_schema::{
    Structural,
    admission::{Budget, Environment, Expression, Objects, Returns, Schemas, Session, Uses, check_types},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// An expression: compiled, judged and evaluated, as a condition of its own, as a mutation and as a rule of a schema.
pub(crate) fn cel(input: &[u8]) {
    let source = String::from_utf8_lossy(input);
    let object = json!({"s": "text", "n": 3, "l": ["a", "b"], "m": {"x": 1, "y": 2}});
    let standalone = source.replace("self", "object").replace("oldSelf", "oldObject");
    let uses = Uses { params: true, ..Uses::default() };
    if let Ok(expression) = Expression::compile(&standalone, uses) {
        let (object, old) = (Some(&object), Some(&object));
        _ = expression.holds(&Objects { object, old, ..Objects::default() });
    }
    mutations(&standalone, &object);
    let known = json!({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}});
    _ = check_types(&standalone, &[("n", "object.n")], Schemas { object: Some(&known), params: None });
    let text = json!({"type": "string", "maxLength": 20});
    let schema = json!({
        "type": "object", "x-kubernetes-validations": [{"rule": source, "messageExpression": source}],
        "properties": {
            "s": text, "n": {"type": "integer"}, "l": {"type": "array", "maxItems": 10, "items": text},
            "m": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "integer"}},
        },
    });
    let whole = json!({"type": "object", "properties": {"spec": schema}});
    if let Ok(schema) = Structural::compile(&whole) {
        let object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": object});
        _ = schema.validate(&object, Some(&object));
    }
}

/// What a mutation makes is JSON that can be written and read again.
fn mutations(source: &str, object: &Value) {
    let variable = Uses { returns: Returns::Anything, ..Uses::default() };
    let mut environment = Environment::default();
    _ = environment.declare("n", "object.n + 1", variable);
    for returns in [Returns::Configuration, Returns::JsonPatch] {
        let Ok(expression) = environment.compile(source, Uses { returns, ..Uses::default() }) else {
            continue;
        };
        let objects = Objects { object: Some(object), old: Some(object), ..Objects::default() };
        let made = Session::run(&objects, |session| {
            session.evaluate(&environment, None, &mut Budget::default(), |evaluator| match returns {
                Returns::Configuration => evaluator.configuration(&expression),
                _ => evaluator.json_patch(&expression),
            })
        });
        if let Ok(made) = made {
            let text = made.to_string();
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "not JSON: {text}");
        }
    }
}

/// A schema, an object, and the object that it replaces.
#[derive(Deserialize)]
struct Case {
    schema: Value,
    #[serde(default)]
    object: Value,
    old: Option<Value>,
}

/// Pruning and defaults come to an end the first time.
pub(crate) fn schema(input: &[u8]) {
    let Ok(Case { schema, mut object, old }) = serde_json::from_slice(input) else { return };
    let Ok(schema) = Structural::compile(&schema) else { return };
    schema.prune(&mut object);
    let pruned = object.clone();
    assert!(schema.prune(&mut object).is_empty() && object == pruned, "pruned twice: {object}");
    schema.apply_defaults(&mut object);
    let complete = object.clone();
    schema.apply_defaults(&mut object);
    assert_eq!(object, complete, "defaults were applied twice");
    let faults = schema.validate(&object, old.as_ref());
    _ = faults.iter().map(|fault| fault.to_string().len()).sum::<usize>();
    _ = schema.validate(&object, Some(&object));
}
