//! Tests of the cost limits of expressions, before and during evaluation.

use capstan_apiserver_schema::{Expression, Structural};
use serde_json::{Value, json};

#[test]
fn conditions_of_webhooks() {
    let object = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"n": 3, "l": ["p", "q"]}});
    let request = json!({"userInfo": {"username": "system:node:a"}, "operation": "CREATE"});
    let holds = |source: &str| {
        let null = Value::Null;
        Expression::compile(source, &["object", "oldObject", "request"])?.holds(&[
            ("object", &object),
            ("oldObject", &null),
            ("request", &request),
        ])
    };
    for (source, expected) in [
        ("object.spec.n > 2", true),
        ("oldObject == null", true),
        ("has(object.spec.absent)", false),
        ("!request.userInfo.username.startsWith('system:node:')", false),
        ("object.spec.l.exists(i, i == 'q') && object.metadata.labels['x'] == '1'", true),
        ("optional.of(1).optMap(a, a + 1).optMap(b, b * 2).value() == 4", true),
        (
            "optional.of(object.spec).optMap(a, optional.of(a.n).optMap(b, b + a.n).value()).value() == 6",
            true,
        ),
        ("object.?spec.optFlatMap(a, a.?absent).optMap(b, b + 1).hasValue()", false),
        ("object.?spec.?n == optional.of(3) && object.?spec.?absent == optional.none()", true),
        ("string(string(object.spec.n == 3)) + string(object.spec.n) == 'true3'", true),
    ] {
        assert_eq!(holds(source), Ok(expected), "{source}");
    }
    for source in ["self.a", "object.spec.n +", "object.spec.absent == 1", "object.spec.n", "nope(object)"] {
        assert!(holds(source).is_err(), "{source}");
    }
}

#[test]
fn nothing_takes_for_ever() {
    let holds =
        |source: &str, list: &Value| Expression::compile(source, &["l"]).unwrap().holds(&[("l", list)]);
    let many = json!((0..2000).collect::<Vec<i64>>());
    let endless = "l.all(a, l.all(b, l.all(c, l.all(d, a + b + c + d >= 0))))";
    assert!(holds(endless, &many).unwrap_err().contains("costs too much"));
    assert_eq!(holds("l.all(a, a >= 0) && l.map(a, a + 1).size() == 2000", &many), Ok(true));
    let long = json!("x".repeat(1000));
    let growing = format!("optional.of(l){}.value().size() > 0", ".optMap(a, a + a)".repeat(30));
    assert!(holds(&growing, &long).is_err());
    assert!(holds("lists.range(2000000000).size() > 0", &long).is_err());
    let wide = format!("l{} != ''", ".replace('x', 'xxxxxxxxxx')".repeat(12));
    assert!(holds(&wide, &long).is_err());
}

fn list(max: Option<u64>, rule: &str) -> Value {
    let mut list = json!({
        "type": "array", "items": {"type": "string", "maxLength": 5}, "x-kubernetes-validations": [{"rule": rule}],
    });
    if let Some(max) = max {
        list["maxItems"] = max.into();
    }
    list
}

fn whole(spec: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

/// What is wrong with a schema.
fn refused(spec: &Value) -> Vec<String> {
    let errors = Structural::compile(&whole(spec)).err().map(|errors| errors.0).unwrap_or_default();
    errors.into_iter().map(|error| format!("{}: {}", error.path, error.detail)).collect()
}

const THRICE: &str = "self.all(a, self.all(b, self.all(c, a != b || b != c || a == c)))";
const TWICE: &str = "self.all(a, self.exists(b, a == b))";

#[test]
fn loops_without_an_end_are_refused() {
    let found = refused(&list(None, THRICE));
    let expected = "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: estimated rule cost exceeds \
                    budget by factor of more than 100x (try";
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with(expected), "{found:?}");
    assert_eq!(refused(&list(Some(20), THRICE)), Vec::<String>::new());
    assert_eq!(refused(&list(None, "self.all(a, a != '')")), Vec::<String>::new());
}

#[test]
fn rules_in_lists_count_as_often_as_they_can_occur() {
    let inner = list(Some(500), TWICE);
    let outer = |max: u64| json!({"type": "array", "maxItems": max, "items": inner});
    assert_eq!(refused(&inner), Vec::<String>::new());
    assert_eq!(refused(&outer(1)), Vec::<String>::new());
    assert_eq!(refused(&outer(50)).len(), 1);
}

/// Its worst case looks affordable, because nobody knows how long the middle part is.
#[test]
fn what_a_rule_really_costs_is_counted() {
    let rule =
        "self.all(a, self.filter(x, true).all(b, self.filter(x, true).all(c, a != b || b != c || a == c)))";
    let schema = Structural::compile(&whole(&list(Some(500), rule))).unwrap();
    let object = |items: usize| json!({"spec": vec!["a"; items]});
    assert!(schema.validate(&object(10), None).is_empty());
    let errors = schema.validate(&object(500), None);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].detail.contains("call cost exceeds limit for rule"), "{}", errors[0].detail);
}

/// Every way to be deep, up to where it is refused and far beyond: nothing of it ends the process.
#[test]
fn nothing_is_too_deep_to_be_judged() {
    let shapes = [
        ("[", ""),
        ("[", "]"),
        ("(", ")"),
        ("{'a': ", "}"),
        ("string(", ")"),
        ("[1].map(x, ", ")"),
        ("true ? true : ", ""),
        ("!", ""),
        ("-", ""),
        ("", " + 1"),
        ("", " == true"),
        ("", " && true"),
        ("", ".a"),
        ("", ".?a"),
        ("", "[0]"),
        ("", " in [1]"),
        ("", ".lowerAscii()"),
        ("", ".map(x, x)"),
        ("", ".optMap(x, x)"),
    ];
    for (before, after) in shapes {
        for count in [28, 58, 82, 120, 248, 5000] {
            let source = format!("{}self{}", before.repeat(count), after.repeat(count));
            let compiled = Expression::compile(&source, &["self"]);
            assert!(compiled.is_err() || count < 5000 || after == " && true", "{before}{after} {count}");
            if let Ok(expression) = &compiled {
                drop(expression.holds(&[("self", &json!(true))]));
            }
            let rules = json!([{"rule": source, "messageExpression": source}]);
            let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": rules}}});
            if let Ok(schema) = Structural::compile(&schema) {
                schema.validate(&json!({"spec": {}}), None);
            }
        }
    }
}
