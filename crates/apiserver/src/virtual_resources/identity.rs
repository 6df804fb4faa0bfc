//! Reviews of identity: TokenReview and SelfSubjectReview.

use serde_json::{Value, json};

use super::texts;
use crate::{
    authentication,
    call::Call,
    object,
    status::{ApiError, Result},
};

/// TokenReview: the user of a token.
pub(crate) fn token_review(call: &Call, mut review: Value) -> Result<Value> {
    let token = object::text(&review, &["spec", "token"]);
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let mut audiences = texts(object::at(&review, &["spec", "audiences"]));
    if audiences.is_empty() {
        audiences = call.plane.issuer.audiences();
    }
    review["status"] = match authentication::by_token(&call.plane, call.plane.now(), token, &audiences) {
        Ok(found) => {
            json!({"authenticated": true, "user": found.user.info(), "audiences": found.audiences})
        }
        Err(error) => json!({"user": {}, "error": error}),
    };
    Ok(review)
}

/// SelfSubjectReview: the user of the request.
pub(crate) fn self_subject_review(call: &Call, mut review: Value) -> Result<Value> {
    review["metadata"] = json!({"creationTimestamp": object::time(call.plane.now())});
    review["status"] = json!({"userInfo": call.user.info()});
    Ok(review)
}
