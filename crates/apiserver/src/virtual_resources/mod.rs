//! Virtual resources, which store nothing: the response is computed from the posted object. Requests take
//! the same path as for every other resource. ComponentStatuses are read instead: see [`components`].

mod access;
pub(crate) mod components;
mod identity;
mod token_request;

use serde_json::Value;

use crate::{
    call::Call,
    registry::Virtual,
    status::{ApiError, Result},
};

/// Computes the response from the posted object, which is of the right kind and pruned.
pub(crate) fn answer(kind: Virtual, call: &Call, posted: Value) -> Result<Value> {
    let answer = match kind {
        Virtual::TokenRequest => token_request::answer,
        Virtual::TokenReview => identity::token_review,
        Virtual::SelfSubjectReview => identity::self_subject_review,
        Virtual::SubjectAccessReview => access::subject,
        Virtual::LocalSubjectAccessReview => access::local_subject,
        Virtual::SelfSubjectAccessReview => access::self_subject,
        Virtual::SelfSubjectRulesReview => access::self_rules,
        Virtual::ComponentStatus => return Err(ApiError::method_not_allowed("")),
    };
    answer(call, posted)
}

/// The strings of a list.
fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
