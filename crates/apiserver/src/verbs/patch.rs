//! Patch: four ways to describe an edit.

use serde_json::Value;

use super::{
    strategic,
    update::{self, Edit},
};
use crate::{
    call::{Call, Outcome},
    fields, object,
    registry::Side,
    request::{
        body::{self, Decoded},
        options::{FieldValidation, WriteOptions},
    },
    status::{ApiError, Cause, Result},
    validation::{admit, scale},
};

/// The media types of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    /// The way a body of a media type describes an edit. Objects of custom kinds have no strategy.
    pub(crate) fn of(media_type: &str, custom: bool) -> Result<Self> {
        match media_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => {
                let strategic = if custom { "" } else { "application/strategic-merge-patch+json, " };
                Err(ApiError::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json, {strategic}application/apply-patch+yaml"
                )))
            }
        }
    }
}

/// Carries out a patch.
pub(crate) async fn patch(
    call: &Call,
    media_type: &str,
    bytes: &[u8],
    options: &WriteOptions,
) -> Result<Outcome> {
    let kind = PatchType::of(media_type, call.resource.is_custom())?;
    if kind == PatchType::Apply {
        return apply(call, bytes, options).await;
    }
    if options.force.is_some() {
        return Err(ApiError::invalid_options(
            "PatchOptions",
            Cause::forbidden("force", "may not be specified for non-apply patch"),
        ));
    }
    let decoded =
        body::json(bytes).map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if kind != PatchType::Json && !decoded.value.is_object() {
        return Err(ApiError::bad_request("error decoding patch: the patch is not an object"));
    }
    let Decoded { value: patch, duplicates } = decoded;
    let edit = |current: Option<&Value>| {
        let current = current.ok_or_else(|| call.not_found())?;
        let patched = match call.side {
            Side::Scale => {
                let mut shown = scale::show(call, current)?;
                patch_value(call, kind, &mut shown, &patch)?;
                return Ok(Edit {
                    object: scale::set(call, current, &shown)?,
                    warnings: Vec::new(),
                    tracked: false,
                });
            }
            _ => {
                let mut patched = current.clone();
                patch_value(call, kind, &mut patched, &patch)?;
                patched
            }
        };
        let decoded = Decoded { value: patched, duplicates: duplicates.clone() };
        let (mut object, warnings) = admit::patched(call, decoded, options.field_validation)?;
        keep_identity(call, &mut object, current);
        Ok(Edit { object, warnings, tracked: false })
    };
    update::update(call, options, edit).await
}

fn patch_value(call: &Call, kind: PatchType, target: &mut Value, patch: &Value) -> Result<()> {
    match kind {
        PatchType::Merge => fields::merge_patch(target, patch)?,
        PatchType::Strategic => strategic::patch(call.version.schema.shape(), target, patch)?,
        PatchType::Json | PatchType::Apply => {
            fields::json_patch(target, patch)?;
        }
    }
    Ok(())
}

async fn apply(call: &Call, bytes: &[u8], options: &WriteOptions) -> Result<Outcome> {
    if options.field_manager.is_none() {
        return Err(ApiError::invalid_options(
            "PatchOptions",
            Cause::required("fieldManager", "is required for apply patch"),
        ));
    }
    let Decoded { value, duplicates } = body::yaml(bytes)?;
    if !value.is_object() {
        return Err(ApiError::bad_request("error decoding YAML: the body is not an object"));
    }
    if object::api_version(&value).is_empty() {
        return Err(ApiError::bad_request("apiVersion must be set"));
    }
    let edit = |current: Option<&Value>| {
        if current.is_none() && !call.side.is_main() {
            return Err(call.not_found());
        }
        let mut applied = match call.side {
            Side::Scale => scale::as_applied(call, &value)?,
            _ => value.clone(),
        };
        admit::check_kind(call, &mut applied)?;
        check_applied(call, &mut applied)?;
        // As it was sent: what the schema does not know is refused here, and nowhere else.
        let merged = fields::apply(call, current, &applied, options)?;
        if matches!(call.side, Side::Scale) {
            scale::check(call, &value)?;
        }
        if options.field_validation == FieldValidation::Strict
            && let Some(wrong) = duplicates.clone().errors().first()
        {
            let message = format!("error strict decoding YAML: error converting YAML to JSON: {wrong}");
            return Err(ApiError::bad_request(message));
        }
        let decoded = Decoded { value: merged, duplicates: duplicates.clone() };
        let namespace = object::meta_str(&applied, "namespace");
        let (mut object, warnings) = admit::applied(call, namespace, decoded, options.field_validation)?;
        if let Some(current) = current {
            keep_identity(call, &mut object, current);
        }
        // An applied resourceVersion is a condition, as in an update.
        let given = object::metadata(&applied).and_then(|metadata| metadata.get("resourceVersion"));
        let version = match (current, given.and_then(Value::as_str)) {
            // Nothing comes of it, but whoever only tries is shown what it sent.
            (None, given) => given.unwrap_or_default(),
            (Some(current), None) => object::meta_str(current, "resourceVersion"),
            (Some(_), Some(given)) => given,
        };
        let metadata = object::metadata_mut(&mut object);
        if version.is_empty() {
            metadata.shift_remove("resourceVersion");
        } else {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        Ok(Edit { object, warnings, tracked: true })
    };
    update::update(call, options, edit).await
}

/// Through the status of a custom resource nothing of its metadata can be changed, so nothing of it is a condition.
fn keep_identity(call: &Call, object: &mut Value, current: &Value) {
    if matches!(call.side, Side::Status) && call.resource.is_custom() {
        object::metadata_mut(object).insert("uid".to_owned(), object::uid(current).into());
    }
}

/// Another name than that of the path is told later, with what else is wrong.
fn check_applied(call: &Call, applied: &mut Value) -> Result<()> {
    let managed = object::metadata(applied).and_then(|metadata| metadata.get("managedFields"));
    if managed.and_then(Value::as_array).is_some_and(|managed| !managed.is_empty()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let is_unnamed = object::name(applied).is_empty();
    let metadata = object::metadata_mut(applied);
    metadata.shift_remove("managedFields");
    if is_unnamed {
        metadata.insert("name".to_owned(), call.name.as_str().into());
    }
    Ok(())
}
