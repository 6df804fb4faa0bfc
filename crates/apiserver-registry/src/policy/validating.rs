//! What ValidatingAdmissionPolicies do.

use capstan_apiserver_schema::admission::{Expression, Returns};
use serde_json::Value;

use super::{Common, Program, uses};
use crate::{match_criteria::items, object};

/// Plural of the policies.
pub const POLICIES: &str = "validatingadmissionpolicies";
/// Plural of the bindings.
pub const BINDINGS: &str = "validatingadmissionpolicybindings";

/// The expressions of a policy.
pub struct Validations {
    /// Variables and conditions.
    pub common: Common,
    /// The validations.
    pub validations: Vec<Validation>,
    /// Audit annotations: key and value.
    pub annotations: Vec<(String, Expression)>,
}

/// One validation.
pub struct Validation {
    /// Whether a request is valid.
    pub expression: Expression,
    /// What a client is told if it is not; may be empty.
    pub message: String,
    /// Returns what a client is told instead.
    pub message_expression: Option<Expression>,
    /// The reason of the refusal; may be empty.
    pub reason: String,
}

impl Program for Validations {
    const POLICIES: &'static str = POLICIES;
    const BINDINGS: &'static str = BINDINGS;

    fn of(spec: &Value) -> Result<Self, String> {
        let common = Common::of(spec)?;
        let compile = |source: &str, returns| common.variables.compile(source, uses(spec, returns));
        let validations = items(spec, "validations").iter().map(|validation| {
            let text = |field: &str| object::text(validation, &[field]);
            let message = Some(text("messageExpression")).filter(|source| !source.is_empty());
            Ok(Validation {
                expression: compile(text("expression"), Returns::Bool)?,
                message: text("message").trim().to_owned(),
                message_expression: message.map(|source| compile(source, Returns::Text)).transpose()?,
                reason: text("reason").to_owned(),
            })
        });
        let validations = validations.collect::<Result<_, String>>()?;
        let annotations = items(spec, "auditAnnotations").iter().map(|annotation| {
            let text = |field: &str| object::text(annotation, &[field]);
            Ok((text("key").to_owned(), compile(text("valueExpression"), Returns::TextOrNull)?))
        });
        let annotations = annotations.collect::<Result<_, String>>()?;
        Ok(Self { validations, annotations, common })
    }
}
