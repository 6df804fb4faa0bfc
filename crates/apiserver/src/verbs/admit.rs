//! From a body to an object that may be stored: kind, unknown fields, defaults, rules.

use serde_json::Value;

use super::{Call, Side, metadata};
use crate::{
    object,
    request::{body::Decoded, options::FieldValidation},
    status::{ApiError, Result},
};

/// How deep an object may nest. What is stored must be read again, with the account of who owns what, which nests as deep
/// and four levels more; readers go 127 levels deep.
const DEEPEST: usize = 100;

/// Checks what a body says it is, and drops what the schema does not know. Gives the object and the
/// warnings it earned.
pub(crate) fn incoming(
    call: &Call,
    decoded: Decoded,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>)> {
    let Decoded { mut value, duplicates } = decoded;
    if !value.is_object() {
        return Err(ApiError::bad_request("the body is not an object"));
    }
    check_kind(call, &mut value)?;
    let kind = &call.resource.kind;
    let refused = |detail: &str| {
        let version = call.version.name.as_str();
        ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {detail}"
        ))
    };
    let mut unknown = metadata::prune(&mut value).map_err(|detail| refused(&detail))?;
    unknown.extend(call.version.schema.prune(&mut value));
    if !call.resource.is_custom() {
        // Upstream reads built-in kinds into typed structures: what does not fit is not even an object.
        let causes = call.version.schema.validate(&value, None);
        if let Some(cause) = causes.iter().find(|cause| cause.reason == "FieldValueTypeInvalid") {
            return Err(refused(&format!("json: cannot unmarshal {}: {}", cause.field, cause.message)));
        }
    }
    if validation == FieldValidation::Ignore {
        return Ok((value, Vec::new()));
    }
    let mut odd: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    odd.extend(duplicates.iter().map(|path| format!("duplicate field {path:?}")));
    if validation == FieldValidation::Strict && !odd.is_empty() {
        return Err(refused(&format!("strict decoding error: {}", odd.join(", "))));
    }
    Ok((value, odd))
}

fn check_kind(call: &Call, value: &mut Value) -> Result<()> {
    let (api_version, kind) = (call.api_version(), call.resource.kind.as_str());
    let (given_version, given_kind) = (object::api_version(value), object::kind(value));
    if given_kind.is_empty() && call.resource.is_custom() {
        let text = value.to_string();
        return Err(ApiError::bad_request(format!("Object 'Kind' is missing in '{text}'")));
    }
    if !given_version.is_empty() && given_version != api_version {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
        )));
    }
    if !given_kind.is_empty() && given_kind != kind {
        let (given, expected) = (gvk(given_version, given_kind), gvk(&api_version, kind));
        return Err(ApiError::bad_request(format!(
            "the kind in the data ({given}) does not match the expected kind ({expected})"
        )));
    }
    // Kind and version first, as everybody prints them.
    let rest = value.as_object_mut().map(std::mem::take).unwrap_or_default();
    *value = serde_json::json!({"apiVersion": api_version, "kind": kind});
    for (field, inner) in rest {
        if field != "apiVersion" && field != "kind" {
            value[field] = inner;
        }
    }
    Ok(())
}

fn gvk(api_version: &str, kind: &str) -> String {
    let (group, version) = object::split_api_version(api_version);
    format!("{group}/{version}, Kind={kind}")
}

/// Fills in what the schema and the kind fill in.
pub(crate) fn default(call: &Call, object: &mut Value) {
    call.version.schema.default(object);
    (call.resource.rules.default)(object);
}

/// Refuses an object that breaks a rule.
pub(crate) fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Result<()> {
    if !object::is_no_deeper(object, DEEPEST) {
        return Err(ApiError::bad_request(format!("the object nests deeper than {DEEPEST} levels")));
    }
    let mut causes = metadata::validate(call, object, old);
    causes.extend(call.version.schema.validate(object, old));
    match (call.side, old) {
        (Side::Main, _) => causes.extend((call.resource.rules.validate)(object, old)),
        (Side::Status, Some(old)) => causes.extend((call.resource.rules.validate_status)(object, old)),
        (Side::Door(door), Some(old)) => causes.extend((door.validate)(object, old)),
        _ => {}
    }
    if causes.is_empty() {
        return Ok(());
    }
    let name = object::name(object);
    Err(ApiError::invalid(call.resource.name.group(), &call.resource.kind, name, &causes))
}
