//! From a body to an object that may be stored: kind, unknown fields, defaults, rules.

use serde_json::Value;

use super::{metadata, scale};
use crate::{
    call::Call,
    object,
    registry::Side,
    request::{
        body::{Decoded, Duplicates},
        options::FieldValidation,
    },
    status::{ApiError, Cause, Result},
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
    incoming_or(call, decoded, validation, |detail| refused(call, detail))
}

/// What an apply has made of an object. `namespace` is what the applied one says of it.
pub(crate) fn applied(
    call: &Call,
    namespace: &str,
    decoded: Decoded,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>)> {
    if call.resource.is_custom() {
        return incoming(call, decoded, validation);
    }
    let kind = gvk(&call.api_version(), &call.resource.kind);
    incoming_or(call, decoded, validation, |detail| {
        ApiError::unexplained(format!(
            "failed to convert new object ({namespace}/{}; {kind}) to proper version: unable to convert unstructured object to \
             {kind}: {detail}",
            call.name
        ))
    })
}

fn refused(call: &Call, detail: &str) -> ApiError {
    let (kind, version) = (&call.resource.kind, &call.version.name);
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {detail}"))
}

/// What a patch has made of an object, in the order of the alphabet. What is no longer one is the patch's fault.
pub(crate) fn patched(
    call: &Call,
    decoded: Decoded,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>)> {
    let mut decoded = decoded;
    if let Value::Object(fields) = &mut decoded.value {
        fields.sort_keys();
    }
    let shown = decoded.value.clone();
    incoming_or(call, decoded, validation, |detail| {
        let cause = Cause::invalid("patch", &shown.to_string().into(), detail);
        ApiError::invalid("", "", "", &[cause])
    })
}

/// The same with words for what cannot be read.
fn incoming_or(
    call: &Call,
    decoded: Decoded,
    validation: FieldValidation,
    unreadable: impl Fn(&str) -> ApiError,
) -> Result<(Value, Vec<String>)> {
    let Decoded { mut value, duplicates } = decoded;
    if !value.is_object() {
        return Err(ApiError::bad_request("the body is not an object"));
    }
    check_kind(call, &mut value)?;
    let custom = call.resource.is_custom();
    let fields: Vec<String> =
        value.as_object().filter(|_| !custom).into_iter().flat_map(|map| map.keys().cloned()).collect();
    let mut unknown = metadata::prune(&mut value).map_err(|detail| unreadable(&detail))?;
    call.version.schema.read(&mut value).map_err(|detail| unreadable(&detail))?;
    unknown.extend(call.version.schema.prune(&mut value));
    if !custom {
        // Upstream reads built-in kinds into typed structures: what does not fit is not even an object.
        // Field by field, so what is odd is told in the order in which it stands there.
        unknown.sort_by_key(|path| {
            fields.iter().position(|field| Some(field.as_str()) == path.split(['.', '[']).next())
        });
        let causes = call.version.schema.validate(&value, None, Vec::new());
        if let Some(cause) = causes.iter().find(|cause| cause.reason == "FieldValueTypeInvalid") {
            return Err(unreadable(&format!("json: cannot unmarshal {}: {}", cause.field, cause.message)));
        }
    }
    if validation == FieldValidation::Ignore {
        return Ok((value, Vec::new()));
    }
    let mut odd: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    if validation == FieldValidation::Strict {
        odd.extend(duplicates.errors());
        if !odd.is_empty() {
            return Err(unreadable(&format!("strict decoding error: {}", odd.join(", "))));
        }
        return Ok((value, Vec::new()));
    }
    odd.extend(duplicates.warnings());
    Ok((value, odd))
}

/// Refuses what says of itself that it is something else.
pub(crate) fn check_kind(call: &Call, value: &mut Value) -> Result<()> {
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

/// Version and kind as upstream prints them.
pub(crate) fn gvk(api_version: &str, kind: &str) -> String {
    let (group, version) = object::split_api_version(api_version);
    format!("{group}/{version}, Kind={kind}")
}

/// Makes what somebody else has changed fit the resource again.
pub(crate) fn refit(call: &Call, object: &mut Value) -> Result<()> {
    metadata::prune(object).map_err(|detail| ApiError::internal(&detail))?;
    call.version.schema.read(object).map_err(|detail| ApiError::internal(&detail))?;
    call.version.schema.prune(object);
    default(call, object, false);
    Ok(())
}

/// The same for what a policy has made of an object, with words for what cannot be read. Upstream decodes what a JSON patch
/// makes of a built-in kind strictly.
pub(crate) fn mutated(
    call: &Call,
    value: Value,
    strict: bool,
    unreadable: impl Fn(&str) -> ApiError,
) -> Result<Value> {
    let is_strict = strict && !call.resource.is_custom();
    let validation = if is_strict { FieldValidation::Strict } else { FieldValidation::Ignore };
    let decoded = Decoded { value, duplicates: Duplicates::None };
    let (mut object, _) = incoming_or(call, decoded, validation, unreadable)?;
    // A null that a policy has set in a custom resource is judged, as one that was applied.
    default(call, &mut object, call.resource.is_custom());
    Ok(object)
}

/// Fills in what the schema and the kind fill in. A null that was applied stays and is judged.
pub(crate) fn default(call: &Call, object: &mut Value, applied: bool) {
    if applied {
        call.version.schema.fill(object);
    } else {
        call.version.schema.default(object);
    }
    (call.resource.rules.default)(object);
}

/// Refuses an object that breaks a rule.
pub(crate) fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Result<()> {
    if !object::is_no_deeper(object, DEEPEST) {
        return Err(ApiError::bad_request(format!("the object nests deeper than {DEEPEST} levels")));
    }
    let mut causes = metadata::validate(call, object, old);
    let replicas = call.version.scale.as_ref().filter(|_| call.resource.is_custom());
    let more = replicas.map(|paths| scale::wrong_replicas(paths, object)).unwrap_or_default();
    causes.extend(match (call.side, old) {
        (Side::Status, Some(old)) if call.resource.is_custom() => {
            call.version.schema.validate_status(object, old, more)
        }
        _ => call.version.schema.validate(object, old, more),
    });
    let own = match (call.side, old) {
        (Side::Main, _) => (call.resource.rules.validate)(object, old),
        (Side::Status, Some(old)) => (call.resource.rules.validate_status)(object, old),
        (Side::Subresource(subresource), Some(old)) => (subresource.validate)(object, old),
        _ => Vec::new(),
    };
    // What the kind says of a field that is missing, it says better.
    let is_listed = |cause: &Cause| own.iter().any(|own| own.field == cause.field);
    causes.retain(|cause| cause.reason != "FieldValueRequired" || !is_listed(cause));
    causes.extend(own);
    if causes.is_empty() {
        return Ok(());
    }
    let name = object::name(object);
    Err(ApiError::invalid(call.resource.name.group(), &call.resource.kind, name, &causes))
}
