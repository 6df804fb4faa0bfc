//! Variables: what a schema allows, defaults, and every place where a Cluster can set them.

use super::*;
use capstan_api::core::{ClusterClassVariable, ClusterVariable, Topology};
use proptest::prelude::*;
use serde_json::{Value, json};

fn variable(name: &str, required: bool, schema: impl Into<Value>) -> ClusterClassVariable {
    let schema: Value = schema.into();
    let written = json!({"name": name, "required": required, "schema": {"openAPIV3Schema": schema}});
    serde_json::from_value(written).expect("a variable")
}

fn definitions(variables: &[ClusterClassVariable]) -> Definitions {
    Definitions::compile(&definitions_of(variables, &[]))
}

fn values(values: Value) -> Vec<ClusterVariable> {
    serde_json::from_value(values).expect("variables")
}

/// The errors of one value of the variable `v`.
fn errors(schema: Value, value: impl Into<Value>, old: Option<Value>) -> Vec<String> {
    let value: Value = value.into();
    let definitions = definitions(&[variable("v", false, schema)]);
    let old = old.map(|old| values(json!([{"name": "v", "value": old}]))).unwrap_or_default();
    let found = definitions.validate(
        &values(json!([{"name": "v", "value": value}])),
        &old,
        true,
        "spec.topology.variables",
    );
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn values_must_match_their_schema() {
    let rule = |rule: &str, message: &str| json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule, "message": message}]});
    for (schema, value, expected) in [
        (json!({"type": "integer", "minimum": 1}), json!(1), None),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            Some(
                "spec.topology.variables[v].value: Invalid value: \"0\": should be greater than or equal to 1",
            ),
        ),
        (
            json!({"type": "integer"}),
            json!("x"),
            Some(
                "spec.topology.variables[v].value: Invalid value: \"\\\"x\\\"\": must be of type integer: \"string\"",
            ),
        ),
        (json!({"type": "string", "pattern": "^a"}), json!("b"), Some("should match '^a'")),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            Some("spec.topology.variables[v].value: Unsupported value"),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}),
            json!({"a": {"b": 1}}),
            Some("spec.topology.variables[v].value.a.b: Invalid value"),
        ),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
            json!({}),
            Some("spec.topology.variables[v].value.a: Required value"),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"a": "x", "b": 1}),
            Some("the schema of the variable has no fields \"b\""),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}),
            json!({"a": {"x": {"y": 1}}}),
            None,
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"a": 1, "b": "x"}),
            Some("spec.topology.variables[v].value.b: Invalid value"),
        ),
        (
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            json!(["a", "b", "a"]),
            Some("shouldn't contain duplicates"),
        ),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
            json!(["a", "b"]),
            Some("must have at most 1 item"),
        ),
        (json!({"x-kubernetes-int-or-string": true}), json!("x"), None),
        (json!({"x-kubernetes-int-or-string": true}), json!(1), None),
        (json!({"type": "string", "format": "ipv4"}), json!("x"), Some("must be of type ipv4")),
        (rule("self > 1", "must be more than one"), json!(2), None),
        (
            rule("self > 1", "must be more than one"),
            json!(1),
            Some("spec.topology.variables[v].value: Invalid value: \"1\": must be more than one"),
        ),
    ] {
        let found = errors(schema.clone(), value.clone(), None);
        match expected {
            None => assert_eq!(found, [] as [String; 0], "{schema} {value}"),
            Some(expected) => {
                assert_eq!(found.len(), 1, "{schema} {value}: {found:?}");
                assert!(found[0].contains(expected), "{schema} {value}: {found:?}");
            }
        }
    }
}

#[test]
fn rules_compare_with_the_value_before() {
    let schema = json!({"type": "integer", "x-kubernetes-validations": [
        {"rule": "self >= oldSelf", "message": "must not shrink"}, {"rule": "self < 10", "message": "must be small"}]});
    assert_eq!(errors(schema.clone(), json!(1), None), [] as [String; 0]);
    assert_eq!(errors(schema.clone(), json!(2), Some(json!(1))), [] as [String; 0]);
    let found = errors(schema.clone(), json!(1), Some(json!(2)));
    assert!(found.len() == 1 && found[0].contains("must not shrink"), "{found:?}");
    // A value that was invalid before stays invalid: the class may have changed.
    let found = errors(schema, json!(10), Some(json!(10)));
    assert!(found.len() == 1 && found[0].contains("must be small"), "{found:?}");
}

#[test]
fn names_must_be_defined_and_set_once() {
    let definitions = definitions(&[variable("a", true, json!({"type": "string"}))]);
    for (set, expected) in [
        (json!([{"name": "a", "value": "x"}]), vec![]),
        (json!([]), vec!["variables: Required value: the ClusterClass requires variable \"a\""]),
        (
            json!([{"name": "a", "value": "x"}, {"name": "b", "value": 1}]),
            vec!["variables[b]: Invalid value: \"1\": the ClusterClass does not define this variable"],
        ),
        (
            json!([{"name": "a", "value": "x"}, {"name": "a", "value": "y"}]),
            vec!["variables[a]: Invalid value: \"\\\"y\\\"\": a variable can be set once"],
        ),
    ] {
        let found = definitions.validate(&values(set.clone()), &[], true, "variables");
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{set}");
    }
    assert_eq!(definitions.validate(&[], &[], false, "variables"), []);
}

#[test]
fn defaults_are_set_where_nothing_is() {
    let nested = json!({"type": "object", "default": {}, "properties": {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "object", "properties": {"c": {"type": "integer", "default": 1}}},
    }});
    let definitions = definitions(&[
        variable("first", false, json!({"type": "string", "default": "d"})),
        variable("nested", false, nested),
        variable("none", false, json!({"type": "string"})),
    ]);
    for (set, adds, expected) in [
        (json!([]), true, json!([{"name": "first", "value": "d"}, {"name": "nested", "value": {"a": "x"}}])),
        (json!([]), false, json!([])),
        (
            json!([{"name": "nested", "value": {"b": {}}}, {"name": "none", "value": "n"}]),
            true,
            json!([
                {"name": "nested", "value": {"b": {"c": 1}, "a": "x"}},
                {"name": "none", "value": "n"},
                {"name": "first", "value": "d"},
            ]),
        ),
        (json!([{"name": "first", "value": null}]), false, json!([{"name": "first", "value": "d"}])),
        (json!([{"name": "first", "value": "own"}]), false, json!([{"name": "first", "value": "own"}])),
    ] {
        let found = definitions.default(&values(set.clone()), adds, "variables").expect("no errors");
        assert_eq!(json!(found), expected, "{set}");
        assert_eq!(definitions.default(&found, adds, "variables").expect("no errors"), found, "again: {set}");
    }
    let errors = definitions.default(&values(json!([{"name": "x", "value": 1}])), true, "variables");
    assert_eq!(errors.expect_err("it is not defined").len(), 1);
}

#[test]
fn conflicting_definitions_make_all_variables_unusable() {
    let string = |name: &str| variable(name, false, json!({"type": "string"}));
    let same = definitions_of(&[string("a")], &[("patch".into(), vec![string("a"), string("b")])]);
    assert_eq!(same.iter().map(|one| one.definitions.len()).collect::<Vec<_>>(), [2, 1]);
    assert!(same.iter().all(|one| one.definitions_conflict == Some(false)));
    let other = variable("a", true, json!({"type": "string"}));
    let conflict = definitions_of(&[string("a")], &[("patch".into(), vec![other])]);
    assert_eq!(conflict[0].definitions_conflict, Some(true));
    let found = Definitions::compile(&conflict).validate(
        &values(json!([{"name": "a", "value": "x"}])),
        &[],
        true,
        "variables",
    );
    assert_eq!(
        found[0].to_string(),
        "variables: Invalid value: \"[Name: a]\": variables of the ClusterClass cannot be used: variable \"a\" is defined in \
         different ways"
    );
}

#[test]
fn every_place_of_a_topology_is_defaulted_and_validated() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}}});
    let definitions = definitions(&[variable("v", true, schema)]);
    let overrides = |value: Value| json!({"overrides": [{"name": "v", "value": value}]});
    let topology = |value: Value| -> Topology {
        serde_json::from_value(json!({
            "classRef": {"name": "class"}, "version": "v1.30.0",
            "variables": [{"name": "v", "value": value}],
            "controlPlane": {"variables": overrides(value.clone())},
            "workers": {
                "machineDeployments": [
                    {"class": "c", "name": "md", "variables": overrides(value.clone())},
                    {"class": "c", "name": "plain"},
                ],
                "machinePools": [{"class": "c", "name": "mp", "variables": overrides(value.clone())}],
            },
        }))
        .expect("a topology")
    };
    let mut valid = topology(json!({}));
    assert_eq!(default_and_validate(&mut valid, None, &definitions), []);
    assert_eq!(valid, topology(json!({"b": 1})));
    let mut invalid = topology(json!({"a": "x"}));
    let found = default_and_validate(&mut invalid, None, &definitions);
    let paths: Vec<&str> = found.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "spec.topology.variables[v].value.a",
            "spec.topology.controlPlane.variables.overrides[v].value.a",
            "spec.topology.workers.machineDeployments[md].variables.overrides[v].value.a",
            "spec.topology.workers.machinePools[mp].variables.overrides[v].value.a",
        ]
    );
}

#[test]
fn schemas_are_validated() {
    let at = "spec.variables[v].schema.openAPIV3Schema";
    for (schema, expected) in [
        (json!({"type": "string", "default": "a", "enum": ["a", "b"], "example": "b"}), None),
        (json!({"type": "string", "default": 1}), Some("openAPIV3Schema.default")),
        (json!({"type": "integer", "example": "x"}), Some("openAPIV3Schema.example")),
        (json!({"type": "integer", "enum": [1, "x"]}), Some("openAPIV3Schema.enum[1]")),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer", "example": "x"}}}),
            Some("openAPIV3Schema.properties[a].example"),
        ),
        (json!({"type": "array"}), Some("openAPIV3Schema.items")),
        (json!({"type": "object", "properties": {"a": {}}}), Some("openAPIV3Schema.properties[a].type")),
        (
            json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self >"}]}),
            Some("openAPIV3Schema.x-kubernetes-validations[0].rule"),
        ),
        (json!({"type": "string", "pattern": "("}), Some("openAPIV3Schema.pattern")),
        (json!({"type": "object", "properties": {"a": "x"}}), Some("openAPIV3Schema.properties[a]")),
    ] {
        let props = serde_json::from_value(schema.clone()).expect("a schema");
        let found = validate_schema(&props, at);
        match expected {
            None => assert_eq!(found, [], "{schema}"),
            Some(path) => {
                let path = format!("spec.variables[v].schema.{path}");
                assert!(found.iter().any(|error| error.path == path), "{schema}: {found:?}");
            }
        }
    }
}

/// A schema that is valid, and values of all kinds.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|fields| json!(fields)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Defaults are set once, and never make a valid value invalid.
    #[test]
    fn defaulting_twice_changes_nothing(value in any_value()) {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 1}}},
            "c": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "boolean", "default": true}}}},
        }});
        let definitions = definitions(&[variable("v", false, schema)]);
        let given = values(json!([{"name": "v", "value": value}]));
        let once = definitions.default(&given, true, "variables").expect("it is defined");
        let twice = definitions.default(&once, true, "variables").expect("it is defined");
        prop_assert_eq!(&once, &twice);
        if definitions.validate(&given, &[], true, "variables").is_empty() {
            prop_assert_eq!(definitions.validate(&once, &[], true, "variables"), []);
        }
    }
}
