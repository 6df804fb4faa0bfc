//! What a machine may change in its Lease. RBAC grants the right to update a whole object; a policy leaves `spec` of it, in
//! texts of moderate length. The embedded plane has a restriction of its own instead.

use capstan_api::access::MACHINE_ACCOUNTS;
use serde_json::{Value, json};

use super::Options;
use crate::Provider;

/// Characters of a text in `spec`.
const MOST: u32 = 1024;

/// The policy and its binding, for the provider that gives machines their rights.
pub(super) fn objects(provider: Provider, options: &Options) -> Vec<Value> {
    if provider != Provider::Bootstrap {
        return Vec::new();
    }
    // With the namespace in front clusterctl removes it with the provider.
    let name = format!("{}-machine-leases", options.namespace);
    let mut validations: Vec<Value> = ["finalizers", "ownerReferences", "labels", "annotations"]
        .into_iter()
        .map(|field| {
            let unchanged = unchanged(field);
            refuse(&unchanged, &format!("machines may change only spec of their Lease, not metadata.{field}"))
        })
        .collect();
    validations.extend(["holderIdentity", "strategy", "preferredHolder"].into_iter().map(|field| {
        let short = format!("!has(object.spec.{field}) || size(object.spec.{field}) <= {MOST}");
        refuse(&short, &format!("spec.{field} of a machine's Lease may have at most {MOST} characters"))
    }));
    let kind = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": name },
            "spec": spec,
        })
    };
    vec![
        kind(
            "ValidatingAdmissionPolicy",
            json!({
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": ["coordination.k8s.io"],
                    "apiVersions": ["*"],
                    "operations": ["UPDATE"],
                    "resources": ["leases"],
                }] },
                "matchConditions": [{
                    "name": "machine",
                    "expression": format!(
                        "request.userInfo.username.startsWith('system:serviceaccount:') \
                         && request.userInfo.username.endsWith('{MACHINE_ACCOUNTS}')"
                    ),
                }],
                "validations": validations,
            }),
        ),
        kind(
            "ValidatingAdmissionPolicyBinding",
            json!({ "policyName": name, "validationActions": ["Deny"] }),
        ),
    ]
}

fn refuse(unless: &str, message: &str) -> Value {
    json!({ "expression": unless, "message": message, "reason": "Forbidden" })
}

/// That a list or map of metadata is the same as before.
fn unchanged(field: &str) -> String {
    let of = |object: &str| format!("{object}.metadata.{field}");
    let (new, old) = (of("object"), of("oldObject"));
    format!("has({new}) == has({old}) && (!has({new}) || {new} == {old})")
}
