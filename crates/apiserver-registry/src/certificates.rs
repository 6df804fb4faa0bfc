//! CertificateSigningRequests: what their conditions and their status say.

use serde_json::Value;

use crate::object;

/// Group and plural.
pub const REQUESTS: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");

/// The signer whose certificates our own clients show.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// The conditions of a request.
pub fn conditions(request: &Value) -> &[Value] {
    let conditions = object::at(request, &["status", "conditions"]).and_then(Value::as_array);
    conditions.map_or(&[], Vec::as_slice)
}

/// Those of one type.
pub fn conditions_of<'a>(request: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    conditions(request).iter().filter(move |condition| object::text(condition, &["type"]) == kind)
}

/// Whether a request has a condition of a type.
pub fn has(request: &Value, kind: &str) -> bool {
    conditions_of(request, kind).next().is_some()
}

/// Whether a certificate has been issued.
pub fn is_issued(request: &Value) -> bool {
    !object::text(request, &["status", "certificate"]).is_empty()
}
