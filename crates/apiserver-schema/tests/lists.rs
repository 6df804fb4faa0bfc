//! Sets and map lists in rules: `+` and `==` follow `x-kubernetes-list-type`, as on a kube-apiserver.

#![cfg(test)]

use capstan_apiserver_schema::Structural;
use serde_json::{Value, json};

fn holds(rule: &str, spec: &Value) -> bool {
    let text = json!({"type": "string", "maxLength": 5});
    let list =
        |kind: &str| json!({"type": "array", "maxItems": 5, "x-kubernetes-list-type": kind, "items": text});
    let parts = json!({
        "type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object", "required": ["name"],
            "properties": {"name": text, "count": {"type": "integer"}, "tags": list("set")},
        },
    });
    let point = json!({
        "type": "object", "x-kubernetes-map-type": "atomic",
        "properties": {"x": text, "y": text, "z": text, "t": text, "colour": text},
    });
    let spec_schema = json!({
        "type": "object", "x-kubernetes-validations": [{"rule": rule}],
        "properties": {
            "list": list("atomic"), "set": list("set"), "parts": parts, "more": parts,
            "points": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": point},
        },
    });
    let schema =
        Structural::compile(&json!({"type": "object", "properties": {"spec": spec_schema}})).expect(rule);
    let object = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec});
    let errors = schema.validate(&object, None);
    assert!(errors.iter().all(|error| error.to_string().contains("failed rule")), "{rule}: {errors:?}");
    errors.is_empty()
}

#[test]
fn a_sum_of_sets_is_their_union() {
    let spec = json!({"set": ["b", "a"], "list": ["a", "c"]});
    for rule in [
        "size(self.set + self.set) == 2",
        "(self.set + self.list).map(x, x) == ['b', 'a', 'c']",
        "(self.set + ['a', 'd', 'd']).map(x, x) == ['b', 'a', 'd']",
        "size(self.set + self.list + self.list) == 3",
        "size((true ? self.set : self.set) + self.set) == 2",
    ] {
        assert!(holds(rule, &spec), "{rule}");
    }
    // The list on the left decides.
    assert!(holds("size(self.list + self.set) == 4 && size(['a'] + self.set) == 3", &spec));
}

#[test]
fn sets_are_equal_in_any_order() {
    let spec = json!({"set": ["b", "a"], "list": ["a", "b"]});
    assert!(holds("self.set == ['a', 'b'] && self.set == self.list && self.set + [] == ['a', 'b']", &spec));
    assert!(!holds("self.set != ['a', 'b']", &spec));
    assert!(holds("self.set != ['a'] && self.set != ['a', 'c'] && self.set != ['a', 'b', 'a']", &spec));
    // The list on the left decides.
    assert!(holds("['a', 'b'] != self.set && self.list != self.set && self.list == ['a', 'b']", &spec));
}

/// Two maps of the same entries may yield them in different orders.
#[test]
fn sets_may_have_objects() {
    let point = |x: &str| json!({"x": x, "y": "2", "z": "3", "t": "4", "colour": "red"});
    for _ in 0..20 {
        let spec = json!({"points": [point("1"), point("2")]});
        assert!(holds("size(self.points + [self.points[1], self.points[0]]) == 2", &spec));
        let literal = |x: &str| format!("{{'x': '{x}', 'y': '2', 'z': '3', 't': '4', 'colour': 'red'}}");
        assert!(holds(&format!("size(self.points + [{}]) == 2", literal("1")), &spec));
        assert!(holds(&format!("size(self.points + [{}]) == 3", literal("3")), &spec));
        assert!(holds("self.points == [self.points[1], self.points[0]]", &spec));
    }
}

#[test]
fn a_sum_of_map_lists_is_merged_by_key() {
    let spec = json!({
        "parts": [{"name": "a", "count": 1}, {"name": "b", "count": 2}],
        "more": [{"name": "c", "count": 3}, {"name": "a", "count": 9}],
    });
    assert!(holds("(self.parts + self.more).map(p, p.name) == ['a', 'b', 'c']", &spec));
    assert!(holds("(self.parts + self.more).map(p, p.count) == [9, 2, 3]", &spec));
    assert!(holds("self.parts + self.parts == self.parts", &spec));
    assert!(holds("self.parts + self.more != self.more + self.parts", &spec));
}

#[test]
fn items_of_lists_keep_their_list_types() {
    let spec = json!({"parts": [{"name": "a", "tags": ["x", "y"]}]});
    assert!(holds("self.parts.all(p, size(p.tags + ['x']) == 2 && p.tags == ['y', 'x'])", &spec));
    assert!(holds("size(self.parts[0].tags + ['x']) == 2", &spec));
}
