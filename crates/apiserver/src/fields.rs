//! Field ownership: adapts requests to `capstan-apiserver-merge`, and its results to responses.

use capstan_apiserver_merge::{
    ApplyError, PatchError, Write, keep_unchanged_times, track_scale, track_update,
};
use serde_json::Value;

use crate::{
    call::Call,
    object,
    registry::Side,
    request::options::WriteOptions,
    status::{ApiError, Cause, Result},
    validation::scale,
};

/// Describes a write of this call to whoever keeps account, and lets it do so.
fn with_write<T>(call: &Call, options: &WriteOptions, run: impl FnOnce(&Write<'_>) -> T) -> T {
    let rules = call.resource.rules;
    let reset: &[&str] = match call.side {
        Side::Main if !rules.reset.is_empty() => rules.reset,
        Side::Main if call.version.status => &["status"],
        Side::Status if call.resource.is_custom() => &["metadata", "spec"],
        Side::Status if !rules.reset_status.is_empty() => rules.reset_status,
        Side::Status => &["spec"],
        Side::Subresource(subresource) => subresource.reset,
        Side::Main | Side::Scale => &[],
    };
    let (api_version, now) = (call.api_version(), object::time(call.plane.now()));
    let blank = (rules.blank)();
    run(&Write {
        shape: call.version.schema.owner_shape(),
        manager: options.field_manager.as_deref().unwrap_or(&call.manager),
        api_version: &api_version,
        subresource: Some(call.side.subresource()).filter(|subresource| !subresource.is_empty()),
        now: &now,
        reset,
        blank: &blank,
    })
}

/// Notes in the managed fields of `new` what a plain write changes.
pub(crate) fn track(call: &Call, old: Option<&Value>, new: &mut Value, options: &WriteOptions) {
    with_write(call, options, |write| track_update(old, new, write));
    if let Some(old) = old {
        as_scale(call, old, new);
    }
}

/// Notes in the managed fields of `new` that a write was one of the scale, if it was.
fn as_scale(call: &Call, old: &Value, new: &mut Value) {
    if let (Side::Scale, Some(scale)) = (call.side, &call.version.scale) {
        track_scale(old, new, &scale.spec_replicas, &call.api_version());
    }
}

/// The object after a server-side apply.
pub(crate) fn apply(
    call: &Call,
    current: Option<&Value>,
    applied: &Value,
    options: &WriteOptions,
) -> Result<Value> {
    let force = options.force == Some(true);
    let applied =
        with_write(call, options, |write| capstan_apiserver_merge::apply(current, applied, write, force));
    match applied {
        Ok(mut applied) => {
            if let Some(current) = current {
                as_scale(call, current, &mut applied.object);
            }
            Ok(applied.object)
        }
        Err(ApplyError::Conflicts(mut conflicts)) => {
            // Whoever applies a scale is told of it in the words of a scale.
            for conflict in conflicts.0.iter_mut().filter(|_| matches!(call.side, Side::Scale)) {
                ".spec.replicas".clone_into(&mut conflict.field);
                if !conflict.manager.api_version.is_empty() {
                    scale::API_VERSION.clone_into(&mut conflict.manager.api_version);
                }
            }
            let causes: Vec<Cause> = conflicts
                .0
                .iter()
                .map(|conflict| Cause {
                    reason: "FieldManagerConflict".to_owned(),
                    field: conflict.field.clone(),
                    message: conflict.message(),
                })
                .collect();
            Err(ApiError::apply_conflict(conflicts.to_string(), &causes))
        }
        Err(ApplyError::BadRequest(message)) => Err(ApiError::bad_request(message)),
        Err(error) => Err(ApiError::unexplained(error.to_string())),
    }
}

/// Whether a write would change nothing but times; then those of `new` are put back.
pub(crate) fn same(new: &mut Value, old: &Value) -> bool {
    keep_unchanged_times(old, new);
    new == old
}

/// RFC 7386.
pub(crate) fn merge_patch(target: &mut Value, patch: &Value) -> Result<()> {
    capstan_apiserver_merge::merge_patch(target, patch).map_err(|error| patch_error(&error))
}

/// RFC 6902.
pub(crate) fn json_patch(target: &mut Value, patch: &Value) -> Result<()> {
    capstan_apiserver_merge::json_patch(target, patch).map_err(|error| patch_error(&error))
}

fn patch_error(error: &PatchError) -> ApiError {
    let message = error.to_string();
    match error {
        PatchError::Malformed(_) => ApiError::bad_request(message),
        PatchError::TooLarge(_) => ApiError::patch_too_large(message),
        PatchError::Inapplicable(_) | PatchError::TestFailed(_) => ApiError::patch_rejected(&message),
    }
}
