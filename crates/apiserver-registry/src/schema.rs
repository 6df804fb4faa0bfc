//! A version's schema: what its objects may hold. A thin seam over `capstan-apiserver-schema`, plus the
//! way from upstream's OpenAPI of the built-in kinds to the same structural form.

use std::{collections::BTreeMap, sync::OnceLock};

use capstan_apiserver_merge::Shape;
use capstan_apiserver_schema::{ErrorKind, FieldError, Structural};
use serde_json::{Map, Value, json};

use super::typed;
use crate::status::Cause;

/// The schema of one version. Compiled when it is first needed: most servers use few of the kinds they know, and a start
/// should not wait for the rest.
pub struct Schema {
    source: Source,
    compiled: OnceLock<Compiled>,
}

enum Source {
    /// The schema of a CRD.
    Custom(Value),
    /// The name of a schema in upstream's OpenAPI.
    BuiltIn(&'static str),
}

struct Compiled {
    structural: Structural,
    /// Why the schema cannot be used: nothing can be written then. It was fit when its CRD was, so another program
    /// has been at work, most likely a newer one.
    unfit: Vec<Cause>,
    /// Of a built-in kind.
    shape: Value,
    owner_shape: Shape,
}

impl Schema {
    /// The schema of a custom resource; see [`Schema::unfit`].
    pub fn custom(schema: &Value) -> Self {
        Self { source: Source::Custom(schema.clone()), compiled: OnceLock::new() }
    }

    /// The schema of a built-in kind, by the name it has in upstream's OpenAPI.
    pub fn built_in(name: &'static str) -> Self {
        Self { source: Source::BuiltIn(name), compiled: OnceLock::new() }
    }

    /// Everything that keeps it from being the schema of a custom resource.
    pub(crate) fn unfit(&self) -> &[Cause] {
        &self.compiled().unfit
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| match &self.source {
            Source::Custom(schema) => compile_custom(schema),
            Source::BuiltIn(name) => compile_built_in(name),
        })
    }

    /// As it is published: the CRD's own text, or nothing for built-ins, whose text is upstream's.
    pub fn published(&self) -> Option<&Value> {
        match &self.source {
            Source::Custom(schema) => Some(schema),
            Source::BuiltIn(_) => None,
        }
    }

    /// The schema in structural form, for those who walk it.
    pub fn shape(&self) -> &Value {
        match &self.source {
            Source::Custom(schema) => schema,
            Source::BuiltIn(_) => &self.compiled().shape,
        }
    }

    /// The schema as those see it who keep account of owners.
    pub fn owner_shape(&self) -> &Shape {
        &self.compiled().owner_shape
    }

    /// Makes of an object of a built-in kind what upstream's typed decoding would.
    ///
    /// # Errors
    /// What typed decoding fails at.
    pub fn read(&self, object: &mut Value) -> Result<(), String> {
        match self.source {
            Source::BuiltIn(_) => typed::read(self.shape(), object),
            Source::Custom(_) => Ok(()),
        }
    }

    /// Drops what the schema does not know; the paths of what was dropped.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        self.compiled().structural.prune(object)
    }

    /// Fills in defaults and leaves nulls.
    pub fn fill(&self, object: &mut Value) {
        self.compiled().structural.fill_defaults(object);
    }

    /// Fills in defaults; a null is replaced if its field has a default and must not be null.
    pub fn default(&self, object: &mut Value) {
        self.compiled().structural.apply_defaults(object);
    }

    /// What is wrong with the status of a custom resource; `more` is, beside what the schema says.
    pub fn validate_status(&self, object: &Value, old: &Value, more: Vec<FieldError>) -> Vec<Cause> {
        let Compiled { structural, unfit, .. } = self.compiled();
        let errors = structural.validate_status(object, old, more);
        unfit.iter().cloned().chain(errors.iter().map(cause)).collect()
    }

    /// What is wrong with an object; `more` is, beside what the schema says.
    pub fn validate(&self, object: &Value, old: Option<&Value>, more: Vec<FieldError>) -> Vec<Cause> {
        let Compiled { structural, unfit, .. } = self.compiled();
        let errors = structural.validate_with(object, old, more);
        let is_built_in = matches!(self.source, Source::BuiltIn(_));
        let reported = errors.iter().filter(|error| !(is_built_in && is_no_bytes(error)));
        unfit.iter().cloned().chain(reported.map(cause)).collect()
    }
}

fn compile_custom(schema: &Value) -> Compiled {
    let (structural, unfit) = match Structural::compile(schema) {
        Ok(structural) => (structural, Vec::new()),
        Err(errors) => (anything(), errors.0.iter().map(cause).collect()),
    };
    Compiled { structural, unfit, shape: Value::Null, owner_shape: Shape::new(Some(schema)) }
}

/// In place of a schema that cannot be used, so that what is stored can still be read.
fn anything() -> Structural {
    Structural::compile(&json!({"type": "object", UNTYPED: true}))
        .unwrap_or_else(|errors| unreachable!("the smallest schema there is: {errors}"))
}

fn compile_built_in(name: &str) -> Compiled {
    let shape = structural_form(name);
    let mut strict = shape.clone();
    drop_list_types(&mut strict);
    let structural = Structural::compile(&strict).unwrap_or_else(|errors| {
        unreachable!("the vendored schema {name} is structural, a test compiles all of them: {errors}")
    });
    Compiled { structural, unfit: Vec::new(), owner_shape: Shape::new(Some(&shape)), shape }
}

/// To Go's typed decoding no bytes are bytes as well; only the formats of CRDs say otherwise.
fn is_no_bytes(error: &FieldError) -> bool {
    error.kind == ErrorKind::TypeInvalid
        && error.bad_value.as_ref().is_some_and(|value| value == "")
        && error.detail.contains("must be of type byte")
}

fn cause(error: &FieldError) -> Cause {
    Cause { reason: error.reason().to_owned(), field: error.path.clone(), message: error.body() }
}

/// Upstream's own lists by key break the rule for CRDs that a key is required or has a default.
fn drop_list_types(schema: &mut Value) {
    if let Value::Object(map) = schema {
        map.retain(|word, _| !word.starts_with("x-kubernetes-list-") && word != "x-kubernetes-map-type");
        map.values_mut().for_each(drop_list_types);
    }
}

/// Upstream's OpenAPI of the kinds we serve, by name. See `data/README.md`.
pub fn vendored() -> &'static BTreeMap<String, Value> {
    static VENDORED: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    VENDORED.get_or_init(|| {
        serde_json::from_str(include_str!("../data/kubernetes-openapi.json"))
            .unwrap_or_else(|error| unreachable!("a vendored file, parsed by every test: {error}"))
    })
}

/// A vendored schema with its references written out and its dialect made structural.
fn structural_form(name: &str) -> Value {
    let mut schema = inline(&json!({"$ref": format!("#/components/schemas/{name}")}), &mut Vec::new());
    // As in a CRD: metadata has rules of its own, the same for every kind.
    schema["properties"]["metadata"] = json!({"type": "object"});
    schema
}

const UNTYPED: &str = "x-kubernetes-preserve-unknown-fields";

/// Types whose required fields upstream does not demand: it does not validate these conditions.
const UNCHECKED: [&str; 2] = [".CustomResourceDefinitionCondition", ".APIServiceCondition"];

fn inline(schema: &Value, open: &mut Vec<String>) -> Value {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
        let target = vendored().get(name);
        // JSONSchemaProps holds itself: whoever writes one is checked when it is compiled.
        let (false, Some(target)) = (open.iter().any(|seen| seen == name), target) else {
            return json!({"type": "object", UNTYPED: true});
        };
        if name.ends_with(".MicroTime") {
            return json!({"type": "string", "format": typed::MICRO_TIME});
        }
        open.push(name.to_owned());
        let mut inlined = inline(target, open);
        if UNCHECKED.iter().any(|kind| name.ends_with(kind)) {
            inlined.as_object_mut().map(|schema| schema.remove("required"));
        }
        open.pop();
        copy_extensions(schema, &mut inlined);
        return inlined;
    }
    if schema.get("format").and_then(Value::as_str) == Some("int-or-string") {
        return json!({"x-kubernetes-int-or-string": true});
    }
    let typeless = schema.get("type").is_none();
    let bare_object = schema.get("type").and_then(Value::as_str) == Some("object")
        && schema.get("properties").is_none()
        && schema.get("additionalProperties").is_none();
    if typeless && schema.get("properties").is_none() {
        // Quantities, and the JSON that CRD schemas embed.
        return json!({UNTYPED: true});
    }
    let mut out = Map::new();
    for word in ["type", "format", "required", "enum"] {
        if let Some(value) = schema.get(word) {
            out.insert(word.to_owned(), value.clone());
        }
    }
    if bare_object {
        out.insert(UNTYPED.to_owned(), true.into());
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let inlined = properties.iter().map(|(name, property)| (name.clone(), inline(property, open)));
        out.insert("properties".to_owned(), Value::Object(inlined.collect()));
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(word) {
            out.insert(word.to_owned(), inline(inner, open));
        }
    }
    let mut out = Value::Object(out);
    copy_extensions(schema, &mut out);
    out
}

/// Extensions, and those defaults that say something: upstream writes zero values for all others.
fn copy_extensions(from: &Value, to: &mut Value) {
    for (word, value) in from.as_object().into_iter().flatten() {
        if word.starts_with("x-kubernetes-")
            && word != "x-kubernetes-group-version-kind"
            && word != "x-kubernetes-unions"
        {
            to[word] = value.clone();
        }
    }
    if let Some(default) =
        from.get("default").filter(|default| default.as_str().is_some_and(|text| !text.is_empty()))
    {
        to["default"] = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn every_built_in_schema_compiles() {
        let registry = Registry::built_in();
        assert!(registry.all().count() >= 20);
        for resource in registry.all() {
            assert!(resource.stored_schema.shape().is_object(), "{}", resource.name);
        }
    }

    #[test]
    fn under_a_schema_that_cannot_be_used_objects_are_read_and_not_written() {
        let schema = Schema::custom(&json!({
            "type": "object",
            "properties": {"a": {"type": "string", "default": "b", "pattern": "["}},
        }));
        assert_eq!(schema.unfit()[0].field, "openAPIV3Schema.properties[a].pattern");
        let mut object = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}, "a": 1});
        let before = object.clone();
        schema.default(&mut object);
        assert_eq!(schema.prune(&mut object), [""; 0]);
        assert_eq!(object, before);
        assert_eq!(schema.validate(&object, None, vec![]), schema.unfit());
        assert_eq!(schema.validate_status(&object, &before, vec![]), schema.unfit());
    }

    #[test]
    fn a_secret_may_hold_nothing() {
        let registry = Registry::built_in();
        let schema = &registry.get("", "secrets").unwrap().versions[0].schema;
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": value}});
        assert_eq!(schema.validate(&secret(""), None, vec![]), []);
        assert_eq!(schema.validate(&secret("x"), None, vec![]).len(), 1);
    }

    #[test]
    fn built_in_kinds_drop_what_they_do_not_know() {
        let registry = Registry::built_in();
        let schema = &registry.get("", "services").unwrap().versions[0].schema;
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "bogus": 1,
            "spec": {"ports": [{"port": 1, "targetPort": "x", "nope": true}], "selector": null},
        });
        schema.read(&mut service).unwrap();
        assert_eq!(schema.prune(&mut service), ["bogus", "spec.ports[0].nope"]);
        schema.default(&mut service);
        assert_eq!(service["spec"], json!({"ports": [{"port": 1, "targetPort": "x", "protocol": "TCP"}]}));
        assert_eq!(schema.validate(&service, None, vec![]), []);
        service["spec"]["ports"][0]["port"] = "x".into();
        assert_eq!(schema.validate(&service, None, vec![]).len(), 1);
    }
}
