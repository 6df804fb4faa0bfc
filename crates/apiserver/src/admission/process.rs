//! Calls the admission of the process where webhooks are called, ahead of them, and only for custom resources themselves, not
//! for their subresources.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;

use super::Attempt;
use crate::{
    call::Call,
    process_admission::{Admission, AdmissionRequest, Operation},
    status::{ApiError, Result},
    validation::admit,
};

/// As long as a webhook without `timeoutSeconds` may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The admission of the process, if it wants to see a write.
fn admission(
    call: &Call,
    operation: Operation,
    sees: impl Fn(&dyn Admission, &str, &str, Operation) -> bool,
) -> Option<&dyn Admission> {
    let admission = call.plane.admission.as_deref()?;
    let is_own = call.resource.is_custom() && call.side.is_main();
    (is_own && sees(admission, call.resource.name.group(), &call.resource.kind, operation))
        .then_some(admission)
}

fn request<'a>(call: &'a Call, attempt: &'a Attempt<'_>, object: Option<&'a Value>) -> AdmissionRequest<'a> {
    AdmissionRequest {
        operation: attempt.operation,
        group: call.resource.name.group(),
        version: &call.version.name,
        kind: &call.resource.kind,
        namespace: &call.namespace,
        name: attempt.name,
        object,
        old: attempt.old,
        dry_run: attempt.dry_run,
    }
}

async fn in_time<T>(answer: BoxFuture<'_, Result<T>>) -> Result<T> {
    let answer = tokio::time::timeout(TIMEOUT, answer).await;
    answer.unwrap_or_else(|_| {
        Err(ApiError::internal(&format!("admission took longer than {} s", TIMEOUT.as_secs())))
    })
}

/// Whether the process wants to see a write.
pub(super) fn is_seen(call: &Call, operation: Operation) -> bool {
    admission(call, operation, |admission, group, kind, operation| {
        admission.validates(group, kind, operation) || admission.mutates(group, kind, operation)
    })
    .is_some()
}

/// Lets the process change an object. Returns whether it did.
pub(super) async fn mutate(
    call: &Call,
    attempt: &Attempt<'_>,
    object: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<bool> {
    let sees = |admission: &dyn Admission, group: &str, kind: &str, operation| {
        admission.mutates(group, kind, operation)
    };
    let Some(admission) = admission(call, attempt.operation, sees) else { return Ok(false) };
    let mutated = in_time(admission.mutate(request(call, attempt, Some(object)))).await?;
    warnings.extend(mutated.warnings);
    let Some(mut changed) = mutated.object else { return Ok(false) };
    admit::refit(call, &mut changed)?;
    let has_changed = changed != *object;
    *object = changed;
    Ok(has_changed)
}

/// Lets the process reject a write. Returns warnings.
pub(super) async fn validate(
    call: &Call,
    attempt: &Attempt<'_>,
    object: Option<&Value>,
) -> Result<Vec<String>> {
    let sees = |admission: &dyn Admission, group: &str, kind: &str, operation| {
        admission.validates(group, kind, operation)
    };
    match admission(call, attempt.operation, sees) {
        Some(admission) => in_time(admission.validate(request(call, attempt, object))).await,
        None => Ok(Vec::new()),
    }
}
