//! Expressions of mutations: what they may construct, what comes of it, and what it may cost.

use capstan_apiserver_schema::admission::{
    Budget, Environment, Expression, Failure, Objects, Outcome, Returns, Session, Uses,
};
use serde_json::{Value, json};

const VARIABLE: Uses = Uses { params: false, authorizer: false, returns: Returns::Anything };

fn uses(returns: Returns) -> Uses {
    Uses { params: true, authorizer: false, returns }
}

fn compile(source: &str, returns: Returns) -> Result<Expression, String> {
    Environment::default().compile(source, uses(returns))
}

/// Evaluates an expression about an object.
fn evaluated(variables: &[(&str, &str)], source: &str, returns: Returns) -> Result<Value, Failure> {
    let mut environment = Environment::default();
    for (name, source) in variables {
        environment.declare(name, source, VARIABLE).expect("a declaration");
    }
    let expression = environment.compile(source, uses(returns)).map_err(Failure::Expression)?;
    let object = json!({"metadata": {"name": "a"}, "spec": {"replicas": 3, "parts": [{"n": 1}, {"n": 2}]}});
    let objects = Objects { object: Some(&object), ..Objects::default() };
    Session::run(&objects, |session| {
        let params = json!({"max": 2});
        session.evaluate(&environment, Some(&params), &mut Budget::default(), |it| match returns {
            Returns::Configuration => it.configuration(&expression),
            Returns::JsonPatch => it.json_patch(&expression),
            _ => it.value(&expression).map(|outcome| json!(format!("{outcome:?}"))),
        })
    })
}

fn configuration(source: &str) -> Result<Value, Failure> {
    evaluated(&[("twice", "object.spec.replicas * 2")], source, Returns::Configuration)
}

fn patch(source: &str) -> Result<Value, Failure> {
    evaluated(&[("twice", "object.spec.replicas * 2")], source, Returns::JsonPatch)
}

#[test]
fn objects_are_constructed() {
    let cases = [
        ("Object{}", json!({})),
        ("Object{spec: Object.spec{replicas: variables.twice}}", json!({"spec": {"replicas": 6}})),
        (
            "Object{metadata: Object.metadata{labels: {'a': 'b', 'c': string(params.max)}}}",
            json!({"metadata": {"labels": {"a": "b", "c": "2"}}}),
        ),
        (
            "Object{spec: Object.spec{parts: object.spec.parts.map(p, Object.spec.parts{n: p.n + 1, ok: true})}}",
            json!({"spec": {"parts": [{"n": 2, "ok": true}, {"n": 3, "ok": true}]}}),
        ),
        (
            "object.spec.replicas > 2 ? Object{spec: Object.spec{x: 1.5}} : Object{}",
            json!({"spec": {"x": 1.5}}),
        ),
        // Fields that need not be there.
        (
            "Object{?a: optional.none(), ?b: optional.of(1), ?c: object.?nope, ?d: object.?kind}",
            json!({"b": 1}),
        ),
        (
            "Object{a: has(Object{b: 1}.b), c: Object{d: [1, 2]}.d.sum(), e: has(Object{}.f)}",
            json!({"a": true, "c": 3, "e": false}),
        ),
        (
            "Object{a: Object{b: 1} == Object{b: 1}, c: Object{} == Object.spec{}}",
            json!({"a": true, "c": false}),
        ),
        ("[Object{a: 1}][0]", json!({"a": 1})),
        ("Object{spec: object.spec}", json!({"spec": {"replicas": 3, "parts": [{"n": 1}, {"n": 2}]}})),
    ];
    for (source, expected) in cases {
        assert_eq!(configuration(source), Ok(expected), "{source}");
    }
}

#[test]
fn patches_are_constructed() {
    let cases = [
        (
            "[JSONPatch{op: 'add', path: '/spec/x', value: Object.spec.x{a: 1}}]",
            json!([{"op": "add", "path": "/spec/x", "value": {"a": 1}}]),
        ),
        (
            "[JSONPatch{op: 'move', from: '/a', path: '/b'}, JSONPatch{op: 'remove', path: '/c'}]",
            json!([{"op": "move", "path": "/b", "from": "/a"}, {"op": "remove", "path": "/c"}]),
        ),
        (
            "object.spec.parts.map(p, JSONPatch{op: 'test', path: '/x/' + jsonpatch.escapeKey('a/b~c'), value: p.n})",
            json!([{"op": "test", "path": "/x/a~1b~0c", "value": 1}, {"op": "test", "path": "/x/a~1b~0c", "value": 2}]),
        ),
        ("has(object.nope) ? [JSONPatch{op: 'remove', path: '/nope'}] : []", json!([])),
        // Values are numbers of JSON in between.
        (
            "[JSONPatch{op: 'add', path: '/x', value: [1, 2.0, 1.5, 9007199254740993, null, true]}]",
            json!([{"op": "add", "path": "/x", "value": [1, 2, 1.5, "9007199254740993", null, true]}]),
        ),
        // What is missing is empty.
        ("[JSONPatch{}]", json!([{"op": "", "path": ""}])),
    ];
    for (source, expected) in cases {
        assert_eq!(patch(source), Ok(expected), "{source}");
    }
}

#[test]
fn names_of_types_match_their_fields() {
    let mismatch = |name: &str, expected: &str| {
        Err(Failure::Value(format!(
            "type mismatch: unexpected type name {name:?}, expected {expected:?}, which matches field name path from root \
             Object type"
        )))
    };
    let cases = [
        ("Object{spec: Object.specx{replicas: 1}}", mismatch("Object.specx", "Object.spec")),
        ("Object{spec: Object{}}", mismatch("Object", "Object.spec")),
        ("Object{spec: Object.spec{l: [Object.spec.m{}]}}", mismatch("Object.spec.m", "Object.spec.l")),
        ("Object{spec: Object.spec{l: {'k': Object.spec{}}}}", mismatch("Object.spec", "Object.spec.l")),
        ("Object{spec: Object.spec{l: {'k': [Object.spec.l{}]}}}", Ok(json!({"spec": {"l": {"k": [{}]}}}))),
    ];
    for (source, expected) in cases {
        assert_eq!(configuration(source), expected, "{source}");
    }
    let nested = "[JSONPatch{op: 'add', path: '/x', value: Object.a{b: Object.a.c{}}}]";
    assert_eq!(patch(nested), mismatch("Object.a.c", "Object.a.b"));
}

#[test]
fn only_mutations_know_these_types() {
    for source in ["Object{} == Object{}", "JSONPatch{op: 'a'}.op == 'a'", "jsonpatch.escapeKey('a') == 'a'"]
    {
        let name = source.split(['{', '.']).next().unwrap();
        let why = format!("undeclared reference to '{name}' (in container '')");
        assert_eq!(compile(source, Returns::Bool).map(drop), Err(why.clone()), "{source}");
        assert_eq!(Environment::default().declare("v", source, VARIABLE), Err(why), "{source}");
        assert!(compile(&format!("Object{{a: {source}}}"), Returns::Configuration).is_ok(), "{source}");
    }
    for (source, why) in [
        ("Invalid{}", "undeclared reference to 'Invalid' (in container '')"),
        ("Object{a: Objects.b{}}", "undeclared reference to 'Objects.b' (in container '')"),
        ("Object{a: nope}", "undeclared reference to 'nope' (in container '')"),
        ("Object{a: JSONPatch{nope: 1}}", "undefined field 'nope'"),
        ("Object{a: JSONPatch{op: 1}}", "expected type of field 'op' is 'string' but provided type is 'int'"),
        (
            "Object{a: JSONPatch{path: [1]}}",
            "expected type of field 'path' is 'string' but provided type is 'list(int)'",
        ),
    ] {
        assert_eq!(compile(source, Returns::Configuration).map(drop), Err(why.to_string()), "{source}");
    }
}

#[test]
fn expressions_return_what_they_construct() {
    let object = |found: &str| Err(format!("must evaluate to Object but got {found}"));
    let list = |found: &str| Err(format!("must evaluate to list(JSONPatch) but got {found}"));
    for (source, returns, expected) in [
        ("'teapot'", Returns::Configuration, object("string")),
        ("Object.spec{}", Returns::Configuration, object("Object.spec")),
        ("object", Returns::Configuration, object("dyn")),
        ("object.spec", Returns::Configuration, object("dyn")),
        (
            "true ? Object{} : Object.spec{}",
            Returns::Configuration,
            Err("found no matching overload for '_?_:_' applied to '(bool, Object, Object.spec)'".to_string()),
        ),
        ("true ? Object{} : object", Returns::Configuration, object("dyn")),
        ("[JSONPatch{}]", Returns::Configuration, object("list(JSONPatch)")),
        ("Object{}", Returns::JsonPatch, list("Object")),
        ("[]", Returns::JsonPatch, list("list(dyn)")),
        ("[Object{}]", Returns::JsonPatch, list("list(Object)")),
        ("[JSONPatch{}, 1]", Returns::JsonPatch, list("list(dyn)")),
        ("JSONPatch{}", Returns::JsonPatch, list("JSONPatch")),
        ("[1].map(x, Object{})", Returns::JsonPatch, list("list(Object)")),
        ("[1].map(x, JSONPatch{})", Returns::JsonPatch, Ok(())),
        ("[1].filter(x, x > 1)", Returns::JsonPatch, Ok(())),
        ("[JSONPatch{}] + [JSONPatch{}]", Returns::JsonPatch, Ok(())),
        ("true ? [] : [JSONPatch{}]", Returns::JsonPatch, Ok(())),
    ] {
        assert_eq!(compile(source, returns).map(drop), expected, "{source}");
    }
    // What nothing but a type checker could tell is told when it is evaluated.
    let wrong = "unsupported return type from ApplyConfiguration expression: ";
    for (source, found) in
        [("[object][0].spec", "map"), ("[Object.spec{}][0]", "Object.spec"), ("[1][0]", "int")]
    {
        assert_eq!(configuration(source), Err(Failure::Value(format!("{wrong}{found}"))), "{source}");
    }
    // A map cannot pass for an object.
    assert!(matches!(configuration("[{'\\u0000type': 'Object'}][0]"), Err(Failure::Value(_))));
    assert!(matches!(patch("[[{'op': 'add'}]][0]"), Err(Failure::Value(_))));
    assert!(matches!(patch("[1, 2].map(x, JSONPatch{op: x})"), Err(Failure::Value(_))));
}

#[test]
fn values_that_json_does_not_have_are_rejected() {
    for source in
        ["Object{a: {1: 'x'}}", "Object{a: b'x'}", "Object{a: quantity('1')}", "Object{a: 0.0 / 0.0}"]
    {
        assert!(matches!(configuration(source), Err(Failure::Value(_))), "{source}");
    }
}

#[test]
fn constructions_cannot_exhaust_stack_memory_or_budget() {
    // Each variable contains the one before twice.
    let text = format!("'{}'", "x".repeat(200));
    let names: Vec<String> = (0..60).map(|i| format!("v{i}")).collect();
    let sources: Vec<String> = (0..60)
        .map(|i| if i == 0 { text.clone() } else { format!("[variables.v{0}, variables.v{0}]", i - 1) })
        .collect();
    let variables: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(sources.iter().map(String::as_str)).collect();
    for (variable, returns) in [
        ("v15", Returns::Configuration),
        ("v15", Returns::JsonPatch),
        ("v59", Returns::Configuration),
        ("v59", Returns::JsonPatch),
    ] {
        let source = match returns {
            Returns::Configuration => format!("Object{{a: variables.{variable}}}"),
            _ => format!("[JSONPatch{{op: 'add', path: '/a', value: variables.{variable}}}]"),
        };
        let failed = evaluated(&variables, &source, returns).unwrap_err();
        assert!(failed.to_string().contains("more than"), "{failed:?}");
        assert_eq!(
            matches!(failed, Failure::Value(_)),
            variable == "v15",
            "the variable itself is too large"
        );
    }
    // Variables inside of constructions count as those in maps do.
    let mut environment = Environment::default();
    for i in 0..120 {
        let source = if i == 0 { "[1]".to_string() } else { format!("[variables.v{}]", i - 1) };
        environment.declare(&format!("v{i}"), &source, VARIABLE).expect("a declaration");
    }
    let nested =
        |count: usize, inner: &str| format!("{}{inner}{}", "Object{a: ".repeat(count), "}".repeat(count));
    let deep = nested(50, &format!("variables.v119{}", ".a".repeat(150)));
    let refused = environment.compile(&deep, uses(Returns::Configuration)).map(drop);
    assert!(refused.is_err_and(|why| why.contains("recursion limit")), "variables count");
    for source in [nested(2000, "1"), format!("Object{{a: {}}}", nested(100, "1"))] {
        assert!(compile(&source, Returns::Configuration).is_err());
    }
    let failed = evaluated(&[("d", "[[[[[[1]]]]]]")], &nested(30, "variables.d"), Returns::Configuration);
    assert!(failed.is_err(), "names do not match");
    // A construction costs, also in a loop.
    let all = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
    let costly = format!(
        "Object{{a: {all}.map(a, {all}.map(b, {all}.map(c, {all}.map(d, {all}.map(e, Object{{}})))))}}"
    );
    let failed = configuration(&costly).unwrap_err();
    assert!(matches!(&failed, Failure::Expression(why) if why.contains("cost limit")), "{failed:?}");
    let cheap = evaluated(&[], "{'a': 1}.a == 1", Returns::Bool);
    assert_eq!(cheap, Ok(json!(format!("{:?}", Outcome::Bool(true)))));
}
