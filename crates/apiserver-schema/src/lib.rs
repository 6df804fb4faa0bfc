//! Structural schemas of custom resources: pruning, defaults, validation and rules, as a kube-apiserver does them,
//! on plain JSON values. Nothing in here does I/O, reads a clock, or knows HTTP, storage or a client.

mod cel;
mod compile;
mod correlate;
mod defaults;
mod embedded;
mod error;
mod formats;
mod gotext;
mod listtype;
mod node;
mod openapi;
mod path;
mod pattern;
mod prune;
mod raw;
mod structural;
mod validate;

pub use cel::{Expression, field_at};
pub use embedded::LABEL_1035;
pub use error::{ErrorKind, FieldError, SchemaErrors};

use correlate::Correlation;
use node::Node;
use serde_json::Value;

/// The compiled `openAPIV3Schema` of one version of a custom resource.
#[derive(Debug)]
pub struct Structural {
    root: Node,
}

impl Structural {
    /// Compiles a schema, or says everything that keeps it from being the schema of a custom resource.
    ///
    /// # Errors
    /// Paths start at `openAPIV3Schema`.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Structural, SchemaErrors> {
        Structural::compile_at(open_api_v3_schema, "openAPIV3Schema")
    }

    /// As [`Structural::compile`], with `at` the path of the schema in the object it was written in.
    ///
    /// # Errors
    /// Paths start at `at`.
    pub fn compile_at(open_api_v3_schema: &Value, at: &str) -> Result<Structural, SchemaErrors> {
        Ok(Structural { root: compile::compile(open_api_v3_schema, at)? })
    }

    /// Drops the fields the schema does not know and returns their paths, sorted: what `fieldValidation` warns of
    /// or refuses. `apiVersion`, `kind` and what `ObjectMeta` knows stay.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Fills in defaults, then drops nulls of fields that are not nullable.
    pub fn apply_defaults(&self, object: &mut Value) {
        defaults::apply(&self.root, object);
    }

    /// Fills in defaults and leaves nulls: for what server-side apply has merged, where upstream refuses a null that a
    /// schema does not allow instead of dropping it.
    pub fn fill_defaults(&self, object: &mut Value) {
        defaults::fill(object, &self.root);
    }

    /// Everything wrong with an object that was pruned and defaulted. With `old`, the object it replaces, failures
    /// of what did not change are tolerated and rules that compare with `oldSelf` run.
    ///
    /// Names, labels and the like in the object's own `metadata` are not looked at.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_with(object, old, Vec::new())
    }

    /// As [`Structural::validate`], with what else somebody found wrong: it is told in its place, and what is wrong in
    /// lists and with rules after it.
    pub fn validate_with(
        &self,
        object: &Value,
        old: Option<&Value>,
        more: Vec<FieldError>,
    ) -> Vec<FieldError> {
        let correlation = old.map(|old| Correlation::new(object, old, &self.root));
        let mut errors = validate::validate(&self.root, object, correlation, "");
        errors.extend(more);
        errors.extend(embedded::check(&self.root, object, ""));
        self.check_whole(object, old, errors)
    }

    /// As [`Structural::validate`], for a write to the status subresource: of the structure only `status` is looked
    /// at, and paths in texts start there. `more` is what else somebody found wrong.
    pub fn validate_status(&self, object: &Value, old: &Value, more: Vec<FieldError>) -> Vec<FieldError> {
        let correlation = Correlation::new(object, old, &self.root);
        let status = object.get("status").zip(self.root.properties.get("status"));
        let mut errors = match status {
            Some((status, node)) => validate::validate(node, status, correlation.key("status"), "status"),
            None => Vec::new(),
        };
        errors.extend(more);
        self.check_whole(object, Some(old), errors)
    }

    /// Uniqueness in lists, then rules, unless what came before would only make them stumble.
    fn check_whole(
        &self,
        object: &Value,
        old: Option<&Value>,
        mut errors: Vec<FieldError>,
    ) -> Vec<FieldError> {
        if old.is_none_or(|old| listtype::check(&self.root, old).is_empty()) {
            errors.extend(listtype::check(&self.root, object));
        }
        if !self.root.has_rules {
            return errors;
        }
        if errors.iter().any(blocks_rules) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            errors.push(FieldError::invalid("", Value::Null, why));
            return errors;
        }
        let correlation = old.map(|old| Correlation::new(object, old, &self.root));
        errors.extend(cel::check(&self.root, object, old, correlation, true, ""));
        errors
    }
}

/// Rules rely on types and sizes.
fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.kind,
        ErrorKind::NotSupported
            | ErrorKind::Required
            | ErrorKind::TooLong
            | ErrorKind::TooMany
            | ErrorKind::TypeInvalid
    )
}
