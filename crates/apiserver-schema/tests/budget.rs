//! Tests of the cost limits of expressions, before and during evaluation.

use capstan_apiserver_schema::{
    Structural,
    admission::{
        Authorizer, Budget, Decision, Environment, Expression, Failure, Objects, Outcome, Question, Returns,
        Schemas, Session, Uses, check_types,
    },
};
use serde_json::{Value, json};
use std::sync::Arc;

#[test]
fn conditions_of_webhooks() {
    let object = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"n": 3, "l": ["p", "q"]}});
    let request = json!({"userInfo": {"username": "system:node:a"}, "operation": "CREATE"});
    let holds = |source: &str| {
        let objects = Objects { object: Some(&object), request: Some(&request), ..Objects::default() };
        Expression::compile(source, Uses::default())?.holds(&objects)
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
    let wrong = [
        "self.a",
        "object.spec.n +",
        "object.spec.absent == 1",
        "object.spec.n",
        "nope(object)",
        // Not false: there is no object that could have the field.
        "!oldObject.spec",
        "!object.spec.n.of",
        "params == null",
        "authorizer.path('/').check('get').allowed()",
    ];
    for source in wrong {
        assert!(holds(source).is_err(), "{source}");
    }
}

#[test]
fn nothing_takes_for_ever() {
    let holds = |source: &str, list: &Value| {
        let objects = Objects { object: Some(list), ..Objects::default() };
        Expression::compile(source, Uses::default()).unwrap().holds(&objects)
    };
    let many = json!((0..2000).collect::<Vec<i64>>());
    let endless = "object.all(a, object.all(b, object.all(c, object.all(d, a + b + c + d >= 0))))";
    assert!(holds(endless, &many).unwrap_err().contains("cost limit exceeded"));
    assert_eq!(holds("object.all(a, a >= 0) && object.map(a, a + 1).size() == 2000", &many), Ok(true));
    let long = json!("x".repeat(1000));
    let growing = format!("optional.of(object){}.value().size() > 0", ".optMap(a, a + a)".repeat(30));
    assert!(holds(&growing, &long).is_err());
    assert!(holds("lists.range(2000000000).size() > 0", &long).is_err());
    let wide = format!("object{} != ''", ".replace('x', 'xxxxxxxxxx')".repeat(12));
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
            let compiled = Expression::compile(&source.replace("self", "object"), Uses::default());
            assert!(compiled.is_err() || count < 5000 || after == " && true", "{before}{after} {count}");
            if let Ok(expression) = &compiled {
                drop(expression.holds(&Objects { object: Some(&json!(true)), ..Objects::default() }));
            }
            let rules = json!([{"rule": source, "messageExpression": source}]);
            let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": rules}}});
            if let Ok(schema) = Structural::compile(&schema) {
                schema.validate(&json!({"spec": {}}), None);
            }
        }
    }
}

/// Evaluates one expression of a policy with these variables.
fn policy(variables: &[(&str, &str)], source: &str, objects: &Objects<'_>) -> Result<Outcome, Failure> {
    let uses = Uses { params: true, authorizer: true, returns: Returns::Anything };
    let mut environment = Environment::default();
    for (name, source) in variables {
        environment.declare(name, source, uses).expect("a declaration");
    }
    let expression = environment.compile(source, uses).expect("an expression");
    Session::run(objects, |session| {
        let params = json!({"max": 2});
        session.evaluate(&environment, Some(&params), &mut Budget::default(), |it| it.value(&expression))
    })
}

#[test]
fn variables_are_evaluated_when_they_are_needed() {
    let object = json!({"n": 3});
    let objects = Objects { object: Some(&object), ..Objects::default() };
    let variables = [("n", "object.n"), ("odd", "variables.n % 2 == 1"), ("broken", "object.absent")];
    let holds = |source: &str| policy(&variables, source, &objects);
    for source in [
        "variables.odd && variables.n > params.max",
        "has(variables.broken)",
        "variables.n == 3 || variables.broken",
        // A variable has one value, whatever the names are where it is used.
        "[{'n': 8}].all(object, object.n == 8 && variables.n == 3)",
        "[{'n': 8}].all(variables, variables.n == 8)",
    ] {
        assert_eq!(holds(source), Ok(Outcome::Bool(true)), "{source}");
    }
    assert_eq!(holds("variables.broken"), Err(Failure::Expression("no such key: absent".to_string())));
    assert_eq!(holds("string(variables.n)"), Ok(Outcome::Text("3".to_string())));
    let environment = Environment::default();
    for source in ["variables.n", "variables", "variables['n']"] {
        assert!(environment.compile(source, Uses::default()).is_err(), "{source}");
    }
}

#[test]
fn variables_cannot_exhaust_stack_or_budget() {
    let uses = Uses { returns: Returns::Anything, ..Uses::default() };
    let mut environment = Environment::default();
    let mut refused = 0;
    for i in 0..2000 {
        let source = if i == 0 { "1".to_string() } else { format!("variables.v{} + 1", i - 1) };
        refused += usize::from(environment.declare(&format!("v{i}"), &source, uses).is_err());
    }
    assert!(refused > 0, "the longest chains are refused");
    let list = json!((0..3000).collect::<Vec<i64>>());
    let objects = Objects { object: Some(&list), ..Objects::default() };
    let costly = [("sum", "object.all(a, object.all(b, a + b >= 0))")];
    let failed = policy(&costly, "variables.sum || variables.sum", &objects).unwrap_err();
    assert!(matches!(failed, Failure::Expression(why) if why.contains("cost limit")));
}

#[derive(Debug)]
struct OnlyPods;

impl Authorizer for OnlyPods {
    fn decide(&self, question: &Question) -> Decision {
        let allowed = question.resource == "pods" && question.verb == "get" && question.namespace == "a"
            || question.path.as_deref() == Some("/healthz")
            || question.service_account == Some(("ns".to_string(), "sa".to_string()));
        Decision { allowed, reason: format!("{}/{}", question.group, question.name) }
    }
}

#[test]
fn the_authorizer_is_asked() {
    let request = json!({"requestResource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": "a", "name": "p"});
    let objects =
        Objects { request: Some(&request), authorizer: Some(Arc::new(OnlyPods)), ..Objects::default() };
    for (source, expected) in [
        ("authorizer.group('').resource('pods').namespace('a').check('get').allowed()", true),
        ("authorizer.group('').resource('pods').namespace('b').check('get').allowed()", false),
        ("authorizer.requestResource.check('get').allowed()", true),
        ("authorizer.requestResource.subresource('x').name('q').check('list').allowed()", false),
        ("authorizer.path('/healthz').check('get').allowed()", true),
        ("authorizer.serviceAccount('ns', 'sa').group('x').resource('y').check('z').allowed()", true),
        ("authorizer.group('g').resource('r').name('n').check('z').reason() == 'g/n'", true),
        ("authorizer.group('g').resource('r').check('z').errored()", false),
    ] {
        assert_eq!(policy(&[], source, &objects), Ok(Outcome::Bool(expected)), "{source}");
    }
    for source in ["authorizer.check('get')", "authorizer.group('g').check('get')", "request.name('x')"] {
        assert!(policy(&[], source, &objects).is_err(), "{source}");
    }
    // Each question has a price.
    let many = "[1, 2, 3, 4].all(i, !authorizer.path('/x').check('get').allowed())";
    assert!(policy(&[], many, &objects).is_err());
}

#[test]
fn types_are_checked_as_far_as_they_are_known() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "replicas": {"type": "integer"}, "image": {"type": "string"}, "any": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }}}});
    let variables = [("n", "object.spec.replicas"), ("s", "object.spec.image")];
    let check =
        |source: &str| check_types(source, &variables, Schemas { object: Some(&schema), params: None });
    for source in [
        "object.spec.replicas > 1 && object.spec.image == 'a'",
        "object.metadata.labels['x'] == '1' && object.kind == 'A'",
        "object.spec.any == 1 || object.spec.any == '1' || object.spec.free.x.y > 2",
        "object.spec.parts.all(p, p.n < 2) && object.spec.labels.exists(l, l == 'x')",
        "object.spec.parts.map(p, p.n).exists(n, n == 2)",
        "has(object.spec.image) && size(object.spec.parts) > 1 && oldObject == null",
        "variables.n > 1 && variables.s.startsWith('a')",
        "'a' + object.spec.image + string(object.spec.replicas) == 'b'",
        "request.name == 'a' && namespaceObject.metadata.name != params.x",
        "object.spec.replicas + 1 >= 2 ? object.spec.image == '' : false",
        "timestamp(object.metadata.creationTimestamp) > timestamp('2020-01-01T00:00:00Z')",
        "[1, 2].map(x, x + 1)[0] == 2 && object.?spec.?image.orValue('x') == 'x'",
    ] {
        assert_eq!(check(source), Ok(()), "{source}");
    }
    for (source, expected) in [
        ("object.spec.replicas > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("'got ' + object.spec.replicas", "found no matching overload for '_+_' applied to '(string, int)'"),
        ("object.spec.maxRetries < 10", "undefined field 'maxRetries'"),
        ("has(object.spec.maxRetries)", "undefined field 'maxRetries'"),
        ("object.spec.parts.all(p, p.m < 2)", "undefined field 'm'"),
        ("variables.n == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("object.spec.image && true", "found no matching overload for '_&&_' applied to '(string, bool)'"),
        ("object.spec.image.x", "type 'string' does not support field selection"),
    ] {
        assert_eq!(check(source), Err(expected.to_string()), "{source}");
    }
    let returns = |source: &str, returns: Returns| {
        Environment::default().compile(source, Uses { returns, ..Uses::default() }).map(drop)
    };
    assert_eq!(returns("'a'", Returns::Bool), Err("must evaluate to bool but got string".to_string()));
    assert_eq!(returns("1 > 0", Returns::Text), Err("must evaluate to string but got bool".to_string()));
    assert_eq!(returns("null", Returns::TextOrNull), Ok(()));
    assert_eq!(returns("object.x", Returns::Bool), Ok(()));
}
