//! Compiles an `openAPIV3Schema` into the tree of nodes, with all checks that an API server makes when a
//! CustomResourceDefinition is written.

use crate::cel::{self, Rule};
use crate::error::{FieldError, SchemaErrors};
use crate::formats;
use crate::node::{Additional, Limits, ListType, Node, Type};
use crate::path::{child, index, key};
use crate::pattern;
use crate::prune;
use crate::raw::{self, Raw, RawAdditional};
use crate::{embedded, openapi, structural, validate};
use serde_json::Value;

/// Compiles a schema written at `at`, or says why it cannot be the schema of a custom resource.
pub(crate) fn compile(written: &Value, at: &str) -> Result<Node, SchemaErrors> {
    let mut errors = Vec::new();
    raw::check_shape(written, at, &mut errors);
    refuse(errors)?;
    let schema = Raw::new(written);
    let obstacle = structural::obstacle(schema);
    let mut errors = if obstacle.is_none() { structural::check(schema, at) } else { Vec::new() };
    errors.extend(openapi::check(schema, at));
    if let Some(why) = obstacle.filter(|_| errors.is_empty()) {
        errors.push(FieldError::invalid(at, "", why));
    }
    refuse(errors)?;
    let mut compiler = Compiler { root: at, errors: Vec::new() };
    let node = compiler.node(schema, at, None);
    refuse(compiler.errors)?;
    let mut errors = cel::check_cost(schema, at);
    check_defaults(&node, at, true, &mut errors);
    refuse(errors)?;
    Ok(node)
}

fn refuse(errors: Vec<FieldError>) -> Result<(), SchemaErrors> {
    if errors.is_empty() { Ok(()) } else { Err(SchemaErrors(errors)) }
}

struct Compiler<'a> {
    /// The path of the whole schema.
    root: &'a str,
    errors: Vec<FieldError>,
}

impl Compiler<'_> {
    /// `loose` is the path of the list above whose items cannot be told apart, if there is one.
    fn node(&mut self, schema: Raw<'_>, at: &str, loose: Option<&str>) -> Node {
        let ty = Type::named(schema.ty());
        let list_type = match schema.text("x-kubernetes-list-type") {
            "set" => ListType::Set,
            "map" => ListType::Map,
            _ => ListType::Atomic,
        };
        let properties = schema.properties().map(|(name, property)| {
            (name.clone(), self.node(property, &key(&child(at, "properties"), name), loose))
        });
        let properties = properties.collect();
        let additional = schema.additional().map(|additional| match additional {
            RawAdditional::Allowed(allowed) => Additional::Allowed(allowed),
            RawAdditional::Schema(schema) => {
                Additional::Schema(Box::new(self.node(schema, &child(at, "additionalProperties"), loose)))
            }
        });
        let loose_items = loose.or((list_type != ListType::Map).then_some(at));
        let items =
            schema.schema("items").map(|items| Box::new(self.node(items, &child(at, "items"), loose_items)));
        let int_or_string = schema.flag("x-kubernetes-int-or-string");
        let mut node = Node {
            ty,
            nullable: schema.flag("nullable"),
            int_or_string,
            preserve_unknown: schema.flag("x-kubernetes-preserve-unknown-fields"),
            embedded: schema.flag("x-kubernetes-embedded-resource"),
            list_type,
            list_map_keys: schema.texts("x-kubernetes-list-map-keys"),
            default: schema.get("default").cloned(),
            properties,
            additional,
            items,
            limits: self.limits(schema, at, ty, int_or_string, loose),
            rules: self.rules(schema, at, loose),
            has_rules: false,
        };
        node.has_rules = !node.rules.is_empty()
            || node.properties.values().any(|node| node.has_rules)
            || node.items.as_ref().is_some_and(|node| node.has_rules)
            || node.additional_schema().is_some_and(|node| node.has_rules);
        node
    }

    fn limits(
        &mut self,
        schema: Raw<'_>,
        at: &str,
        ty: Option<Type>,
        int_or_string: bool,
        loose: Option<&str>,
    ) -> Limits {
        let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let count = |keyword: &str| schema.get(keyword).and_then(Value::as_i64);
        let format = schema.text("format").to_string();
        // Refused above if it does not compile.
        let pattern = Some(schema.text("pattern")).filter(|written| !written.is_empty());
        let pattern =
            pattern.and_then(|written| Some((written.to_string(), pattern::compile(written).ok()?)));
        let mut branches = |keyword: &str| -> Vec<Node> {
            let branches = schema.schemas(keyword).enumerate();
            branches.map(|(i, branch)| self.node(branch, &index(&child(at, keyword), i), loose)).collect()
        };
        let (all_of, any_of, one_of) = (branches("allOf"), branches("anyOf"), branches("oneOf"));
        let not = schema.schema("not").map(|branch| Box::new(self.node(branch, &child(at, "not"), loose)));
        Limits {
            checked_format: formats::checked(&format, ty, int_or_string),
            format,
            maximum: number("maximum"),
            exclusive_maximum: schema.flag("exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: schema.flag("exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            pattern,
            max_items: count("maxItems"),
            min_items: count("minItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            required: schema.texts("required"),
            choices: schema.list("enum").to_vec(),
            all_of,
            any_of,
            one_of,
            not,
        }
    }

    fn rules(&mut self, schema: Raw<'_>, at: &str, loose: Option<&str>) -> Vec<Rule> {
        let mut rules = Vec::new();
        let resource = at == self.root;
        for (i, written) in schema.list("x-kubernetes-validations").iter().enumerate() {
            let at = index(&child(at, "x-kubernetes-validations"), i);
            let rule = match Rule::compile(written, schema, resource) {
                Ok(rule) => rule,
                Err((part, why)) => {
                    self.errors.push(FieldError::invalid(&child(&at, part), written.clone(), why));
                    continue;
                }
            };
            if let Some(list) = loose.filter(|_| rule.uses_old_self()) {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors.push(FieldError::invalid(
                    &child(&at, "rule"),
                    Raw::new(written).text("rule"),
                    why,
                ));
            }
            if let Some(set) =
                written.get("optionalOldSelf").filter(|set| set.is_boolean() && !rule.uses_old_self())
            {
                let why = "may not be set if oldSelf is not used in rule";
                self.errors.push(FieldError::invalid(&child(&at, "optionalOldSelf"), set.clone(), why));
            }
            rules.push(rule);
        }
        rules
    }
}

/// A default must be a value that its own schema accepts.
fn check_defaults(node: &Node, at: &str, resource: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        let at = child(at, "default");
        if !prune::is_pruned(node, default) {
            errors.push(FieldError::invalid(&at, default.clone(), "must not have unknown fields"));
        }
        let mut found = embedded::check(node, default, &at);
        if found.is_empty() {
            found = validate::validate(node, default, None, &at);
        }
        if found.is_empty() {
            // Once as if it had always been there, once as if it were new.
            found = cel::check(node, default, Some(default), None, resource, &at);
            if found.is_empty() {
                found = cel::check(node, default, None, None, resource, &at);
            }
        }
        errors.extend(found);
    }
    if let Some(items) = &node.items {
        check_defaults(items, &child(at, "items"), items.embedded, errors);
    }
    for (name, property) in &node.properties {
        check_defaults(property, &key(&child(at, "properties"), name), property.embedded, errors);
    }
}
