//! Questions to an API server that tell which rights somebody has. This module does no I/O.

use serde_json::{Value, json};

use super::reach::{Right, SCOPES, Scope};

/// What somebody may do: all of these.
pub(super) struct Question {
    pub(super) right: Right,
    /// `resourceAttributes` of SubjectAccessReviews of which one must be allowed.
    pub(super) any_of: Vec<Value>,
}

fn may(verb: &str, group: &str, resource: &str, namespace: Option<&str>, name: Option<&str>) -> Value {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    json!({
        "verb": verb, "group": group, "resource": resource, "subresource": subresource,
        "namespace": namespace, "name": name,
    })
}

/// Everything that leads somewhere, and what a machine called `machine` has of its own.
pub(super) fn questions(machine: &str) -> Vec<Question> {
    let mut all: Vec<Question> = SCOPES.into_iter().flat_map(in_namespace).collect();
    all.extend(everywhere());
    let yard = Some(Scope::Clusters.namespace());
    let own = |right, verb: &str, group: &str, resource: &str, name: &str| Question {
        right,
        any_of: vec![may(verb, group, resource, yard, Some(name))],
    };
    all.extend([
        own(Right::ReadOwnPlan, "get", "", "secrets", &format!("{machine}-plan")),
        own(Right::WriteOwnReport, "patch", "agent.capstan.dev", "machinereports/status", machine),
        own(Right::WriteOwnLease, "update", "coordination.k8s.io", "leases", &format!("{machine}-agent")),
    ]);
    all
}

fn in_namespace(scope: Scope) -> Vec<Question> {
    let here = |verbs: &[&str], things: &[(&str, &str)]| {
        let all = verbs.iter().flat_map(|verb| {
            things.iter().map(|(group, resource)| may(verb, group, resource, Some(scope.namespace()), None))
        });
        all.collect::<Vec<_>>()
    };
    let runs = [
        ("", "pods"),
        ("", "replicationcontrollers"),
        ("apps", "deployments"),
        ("apps", "daemonsets"),
        ("apps", "statefulsets"),
        ("apps", "replicasets"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
    ];
    let enters =
        [("", "pods/exec"), ("", "pods/attach"), ("", "pods/ephemeralcontainers"), ("", "pods/proxy")];
    vec![
        Question {
            right: Right::ReadSecrets(scope),
            any_of: here(&["get", "list", "watch"], &[("", "secrets")]),
        },
        Question { right: Right::CreateSecrets(scope), any_of: here(&["create"], &[("", "secrets")]) },
        Question {
            right: Right::RequestTokens(scope),
            any_of: here(&["create"], &[("", "serviceaccounts/token")]),
        },
        Question { right: Right::RunPods(scope), any_of: here(&["create", "update", "patch"], &runs) },
        Question {
            right: Right::EnterPods(scope),
            any_of: here(&["get", "create", "update", "patch"], &enters),
        },
    ]
}

fn everywhere() -> Vec<Question> {
    const CERTIFICATES: &str = "certificates.k8s.io";
    const REQUESTS: &str = "certificatesigningrequests";
    const RBAC: &str = "rbac.authorization.k8s.io";
    const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
    let any = |verb: &str, group: &str, resource: &str| may(verb, group, resource, None, None);
    let mut grants = Vec::new();
    for namespace in SCOPES.iter().map(|scope| Some(scope.namespace())).chain([None]) {
        for role in ["roles", "clusterroles"] {
            grants.extend(["bind", "escalate"].map(|verb| may(verb, RBAC, role, namespace, None)));
        }
    }
    let interceptors =
        ["mutatingwebhookconfigurations", "validatingwebhookconfigurations", "mutatingadmissionpolicies"];
    let mut intercepts: Vec<Value> = interceptors
        .iter()
        .flat_map(|kind| {
            ["create", "update", "patch"].map(|verb| any(verb, "admissionregistration.k8s.io", kind))
        })
        .collect();
    // A CRD may name a webhook that converts its objects, and an APIService a server that answers for a group.
    for (group, kind) in
        [("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")]
    {
        intercepts.extend(["create", "update", "patch"].map(|verb| any(verb, group, kind)));
    }
    vec![
        Question {
            right: Right::Impersonate,
            any_of: ["users", "groups", "serviceaccounts"].map(|kind| any("impersonate", "", kind)).to_vec(),
        },
        Question { right: Right::RequestCertificates, any_of: vec![any("create", CERTIFICATES, REQUESTS)] },
        Question {
            right: Right::ApproveCertificates,
            any_of: vec![may("approve", CERTIFICATES, "signers", None, Some(SIGNER))],
        },
        Question {
            right: Right::SignCertificates,
            any_of: vec![may("sign", CERTIFICATES, "signers", None, Some(SIGNER))],
        },
        Question { right: Right::GrantRights, any_of: grants },
        Question { right: Right::InterceptRequests, any_of: intercepts },
    ]
}
