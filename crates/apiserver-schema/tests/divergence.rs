//! All known differences from a kube-apiserver, with their direction: fail-closed rejects what upstream accepts,
//! fail-open accepts what upstream rejects. If a difference disappears, its test fails, so that this list stays
//! correct.

#![cfg(test)]

use capstan_apiserver_schema::Structural;
use serde_json::{Value, json};

fn whole(spec: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

/// A schema whose spec has lists, a set and a string, and this rule.
fn with_rule(rule: &str) -> Value {
    let list = |kind: &str| json!({"type": "array", "maxItems": 5, "x-kubernetes-list-type": kind, "items": {"type": "string", "maxLength": 5}});
    whole(&json!({
        "type": "object",
        "properties": {"list": list("atomic"), "set": list("set"), "text": {"type": "string", "maxLength": 5}},
        "x-kubernetes-validations": [{"rule": rule}],
    }))
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec})
}

fn refused(schema: &Value) -> String {
    Structural::compile(schema).unwrap_err().to_string()
}

fn errors(schema: &Value, spec: &Value) -> Vec<String> {
    Structural::compile(schema)
        .unwrap()
        .validate(&object(spec), None)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Fail-closed: the schema is refused.
#[test]
fn macros_the_evaluator_does_not_know() {
    for rule in [
        "self.list.all(i, v, v != '')",
        "self.list.exists(i, v, v != '')",
        "self.list.transformList(i, v, v).size() == 1",
        "self.list.sortBy(x, x) == ['a']",
    ] {
        let why = refused(&with_rule(rule));
        assert!(why.contains("is not supported"), "{rule}: {why}");
    }
}

/// Fail-closed: the schema is refused.
#[test]
fn not_a_word_boundary() {
    let why = refused(&whole(
        &json!({"type": "object", "properties": {"a": {"type": "string", "pattern": r"\Bx"}}}),
    ));
    assert!(why.contains("is not supported"), "{why}");
}

/// Upstream refuses the schema; here it is taken, and objects are refused when the rule stumbles over them.
#[test]
fn types_in_rules_are_not_checked_beforehand() {
    let schema = with_rule("self.text > 1");
    assert_eq!(errors(&schema, &json!({"text": "x"})).len(), 1);
}

/// Fail-open: the estimated cost of rules is a lower bound of upstream's, which counts most functions for more. What a
/// rule really costs is bounded.
#[test]
fn rules_may_look_cheaper() {
    let text = json!({"type": "string"});
    let rule = json!([{"rule": "self.all(a, a.split(',').all(b, b.upperAscii() != 'X'))"}]);
    let list = json!({"type": "array", "items": text, "maxItems": 100, "x-kubernetes-validations": rule});
    assert!(Structural::compile(&whole(&json!({"type": "object", "properties": {"l": list}}))).is_ok());
}

/// Fail-open: of the metadata of embedded resources only types and the name are checked.
#[test]
fn labels_of_embedded_resources() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let schema = whole(&json!({"type": "object", "properties": {"e": embedded}}));
    let spec = json!({"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"not a key": "x"}}}});
    assert_eq!(errors(&schema, &spec), Vec::<String>::new());
}

/// Fail-open: upstream checks defaults against formats that it does not check otherwise.
#[test]
fn defaults_of_unknown_formats() {
    let schema = json!({"x-kubernetes-preserve-unknown-fields": true, "format": "unheard-of", "default": 1});
    assert!(Structural::compile(&whole(&json!({"type": "object", "properties": {"a": schema}}))).is_ok());
}

/// The same objects are refused, with fewer words: upstream tells every error, however many there are.
#[test]
fn only_so_many_errors_are_reported() {
    let list = |limits: &Value| {
        let mut list = json!({"type": "array", "items": {"type": "string"}});
        list.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        whole(&json!({"type": "object", "properties": {"list": list}}))
    };
    let wrong = json!({"list": vec![1; 1000]});
    let told = errors(&list(&json!({})), &wrong);
    assert_eq!(told.len(), 129);
    assert!(told[128].contains("there are more errors"), "{}", told[128]);

    // A list that is too long is told of, and its items are not looked at.
    let told = errors(&list(&json!({"maxItems": 5})), &wrong);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("must have at most 5 items"), "{}", told[0]);
    // One that is too short has its items looked at.
    assert_eq!(errors(&list(&json!({"minItems": 5})), &json!({"list": [1, "x"]})).len(), 2);

    let rule = json!([{"rule": "self == 'x'"}]);
    let item = json!({"type": "string", "maxLength": 5, "x-kubernetes-validations": rule});
    let schema = whole(
        &json!({"type": "object", "properties": {"list": {"type": "array", "maxItems": 1000, "items": item}}}),
    );
    let told = errors(&schema, &json!({"list": vec!["y"; 1000]}));
    assert_eq!(told.len(), 129);
    assert!(told[128].contains("there are more errors"), "{}", told[128]);
}
