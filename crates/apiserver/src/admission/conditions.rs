//! The match conditions of policies.

use capstan_apiserver_schema::admission::{Budget, Expression, Failure, Outcome, Session};
use serde_json::Value;

use crate::policy::Common;

/// Whether all conditions hold. One that is false counts more than one that cannot be evaluated.
pub(super) fn meets(session: &Session<'_>, policy: &Common, params: Option<&Value>) -> Result<bool, String> {
    if policy.conditions.is_empty() {
        return Ok(true);
    }
    session.evaluate(&policy.variables, params, &mut Budget::of_conditions(), |evaluator| {
        let mut failed = None;
        for condition in &policy.conditions {
            match evaluator.value(condition) {
                Ok(Outcome::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(failure) => failed = failed.or(Some(words(condition, &failure))),
            }
        }
        failed.map_or(Ok(true), Err)
    })
}

/// Why an expression cannot be used.
pub(super) fn words(expression: &Expression, failure: &Failure) -> String {
    match failure {
        Failure::Expression(why) => format!("expression '{}' resulted in error: {why}", expression.source()),
        Failure::Value(_) | Failure::Budget => failure.to_string(),
    }
}
