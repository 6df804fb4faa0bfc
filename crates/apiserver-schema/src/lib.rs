//! Structural schemas of custom resources: pruning, defaulting, validation and CEL rules, as in a kube-apiserver, on
//! plain JSON values. This crate does no I/O, reads no clock, and knows nothing about HTTP, storage or clients.

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

pub use cel::field_at;

pub use embedded::LABEL_1035;
pub use error::{ErrorKind, FieldError, SchemaErrors};
pub use prune::OBJECT_META;

/// Expressions of admission webhooks and policies.
pub mod admission {
    pub use crate::cel::{
        Authorizer, Budget, Decision, Environment, Evaluator, Expression, Failure, Objects, Outcome,
        Question, Returns, Schemas, Session, Uses, check_types,
    };
}

use correlate::Correlation;
use node::Node;
use serde_json::Value;

/// The compiled `openAPIV3Schema` of one version of a custom resource.
#[derive(Debug)]
pub struct Structural {
    root: Node,
}

impl Structural {
    /// Compiles a schema. The error lists everything that makes it invalid for a custom resource.
    ///
    /// # Errors
    /// Paths start at `openAPIV3Schema`.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Structural, SchemaErrors> {
        Structural::compile_at(open_api_v3_schema, "openAPIV3Schema")
    }

    /// Like [`Structural::compile`], for a schema at the path `at` of its object.
    ///
    /// # Errors
    /// Paths start at `at`.
    pub fn compile_at(open_api_v3_schema: &Value, at: &str) -> Result<Structural, SchemaErrors> {
        Ok(Structural { root: compile::compile(open_api_v3_schema, at)? })
    }

    /// Removes unknown fields and returns their sorted paths, for the warnings and errors of `fieldValidation`.
    /// `apiVersion`, `kind` and the fields of `ObjectMeta` stay.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Sets defaults, then removes nulls from fields that are not nullable.
    pub fn apply_defaults(&self, object: &mut Value) {
        defaults::apply(&self.root, object);
    }

    /// Sets defaults and keeps nulls: for the result of a server-side apply. Upstream rejects a null there if the
    /// schema does not allow it, instead of removing it.
    pub fn fill_defaults(&self, object: &mut Value) {
        defaults::fill(object, &self.root);
    }

    /// All errors of an object that was pruned and defaulted. `old` is the object that it replaces. With `old`,
    /// failures of unchanged values are tolerated (ratcheting), and rules with `oldSelf` run.
    ///
    /// Names, labels and other fields of the object's own `metadata` are not validated.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_with(object, old, Vec::new())
    }

    /// Like [`Structural::validate`], with errors that the caller found. They are placed after the structural errors,
    /// and before the errors of lists and rules.
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

    /// Like [`Structural::validate`], for a write to the status subresource: only the structure of `status` is
    /// validated, and paths in messages start there. `more` contains errors that the caller found.
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
