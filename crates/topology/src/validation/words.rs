//! Texts of Kubernetes: names, labels, amounts.

use crate::field;
use capstan_api::core::{MachineHealthCheckChecks, RollingUpdateLimits};
use capstan_api::meta::TemplateMetadata;
use capstan_apiserver_schema::FieldError;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The most bytes of all annotations of an object.
const MOST_ANNOTATIONS: usize = 256 << 10;
/// The shortest time that a health check gives a Node to appear, in seconds. 0 switches the check off.
const LEAST_STARTUP: i32 = 30;

/// Whether the text is a name, such as of an object, of parts with dots.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    let is_end =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

/// Whether the text is the value of a label that is not empty, or the part of a key after its prefix.
pub fn is_label(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Whether the text is the key of a label: a name with an optional prefix.
pub fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label(name),
        None => is_label(text),
    }
}

/// Errors of labels and annotations.
pub fn metadata(metadata: Option<&TemplateMetadata>, at: &str) -> Vec<FieldError> {
    let Some(metadata) = metadata else { return Vec::new() };
    labels_and_annotations(&metadata.labels, &metadata.annotations, at)
}

pub(super) fn labels_and_annotations(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    at: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = field::child(at, "labels");
    for (key, value) in labels {
        if !is_key(key) {
            errors.push(field::invalid(&path, key.as_str(), "the key of a label must be a qualified name"));
        }
        if !value.is_empty() && !is_label(value) {
            let why = "the value of a label has at most 63 letters, digits, '-', '_' and '.'";
            errors.push(field::invalid(&path, value.as_str(), why));
        }
    }
    let path = field::child(at, "annotations");
    for key in annotations.keys() {
        if !is_key(&key.to_ascii_lowercase()) {
            errors.push(field::invalid(
                &path,
                key.as_str(),
                "the key of an annotation must be a qualified name",
            ));
        }
    }
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > MOST_ANNOTATIONS {
        let why = format!("annotations may have {MOST_ANNOTATIONS} bytes together");
        errors.push(field::new(&path, capstan_apiserver_schema::ErrorKind::TooLong, None, why));
    }
    errors
}

/// An error if an amount is neither a number nor a percentage.
pub fn amount(amount: Option<&impl Serialize>, at: &str) -> Option<FieldError> {
    match serde_json::to_value(amount?).ok()? {
        Value::String(text) => {
            let digits = text.strip_suffix('%');
            let is_percentage = digits
                .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
            let why = "must be a number, or a percentage such as 25%";
            (!is_percentage).then(|| field::invalid(at, text, why))
        }
        _ => None,
    }
}

/// Errors of the limits of a rollout.
pub fn rolling_update(limits: Option<&RollingUpdateLimits>, at: &str) -> Vec<FieldError> {
    let Some(limits) = limits else { return Vec::new() };
    let at = field::child(at, "rollingUpdate");
    let (unavailable, surge) = (limits.max_unavailable.as_ref(), limits.max_surge.as_ref());
    let mut errors: Vec<FieldError> = Vec::new();
    errors.extend(amount(unavailable, &field::child(&at, "maxUnavailable")));
    errors.extend(amount(surge, &field::child(&at, "maxSurge")));
    let is_zero = |amount: Option<Value>| amount == Some(Value::from(0));
    let json = |amount: Option<&_>| amount.and_then(|amount| serde_json::to_value(amount).ok());
    if is_zero(json(unavailable)) && is_zero(json(surge)) {
        errors.push(field::invalid(&at, "0", "one of maxUnavailable and maxSurge must be more than 0"));
    }
    errors
}

/// An error if a Node has too little time to appear.
pub(super) fn startup(checks: Option<&MachineHealthCheckChecks>, at: &str) -> Option<FieldError> {
    let seconds = checks?.node_startup_timeout_seconds?;
    let at = field::child(at, "checks.nodeStartupTimeoutSeconds");
    (seconds != 0 && seconds < LEAST_STARTUP)
        .then(|| field::invalid(&at, seconds, format!("must be 0 or at least {LEAST_STARTUP}")))
}
