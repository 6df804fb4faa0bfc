//! The registry rows of kinds for authentication and authorization: roles and bindings, certificate requests, and
//! reviews, which are not stored.

use super::{
    BuiltIn,
    CellOf::{self, Computed, Path, Wide},
    ROW,
};
use crate::{
    Virtual,
    kinds::{self, cells},
};

/// Below a service account.
pub(super) const TOKEN_REQUEST: BuiltIn = BuiltIn {
    group: "authentication.k8s.io",
    resource: "tokenrequests",
    kind: "TokenRequest",
    schema: "io.k8s.api.authentication.v1.TokenRequest",
    virtual_kind: Some(Virtual::TokenRequest),
    ..ROW
};

/// A time, not an age.
const ROLE_COLUMNS: &[(&str, &str, CellOf)] = &[("Created At", "date", Computed(cells::created_at))];

const BINDING_COLUMNS: &[(&str, &str, CellOf)] = &[
    ("Role", "string", Computed(cells::role_ref)),
    ("Age", "string", Computed(cells::age)),
    ("Users", "string", Wide(|binding, _| cells::subjects(binding, "User"))),
    ("Groups", "string", Wide(|binding, _| cells::subjects(binding, "Group"))),
    ("ServiceAccounts", "string", Wide(|binding, _| cells::subjects(binding, "ServiceAccount"))),
];

/// The rows.
pub(super) const TABLE: &[BuiltIn] = &[
    BuiltIn {
        group: "rbac.authorization.k8s.io",
        resource: "roles",
        kind: "Role",
        schema: "io.k8s.api.rbac.v1.Role",
        columns: ROLE_COLUMNS,
        rules: &kinds::ROLE,
        ..ROW
    },
    BuiltIn {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        kind: "RoleBinding",
        schema: "io.k8s.api.rbac.v1.RoleBinding",
        columns: BINDING_COLUMNS,
        rules: &kinds::ROLE_BINDING,
        ..ROW
    },
    BuiltIn {
        group: "rbac.authorization.k8s.io",
        resource: "clusterroles",
        kind: "ClusterRole",
        schema: "io.k8s.api.rbac.v1.ClusterRole",
        columns: ROLE_COLUMNS,
        namespaced: false,
        rules: &kinds::ROLE,
        ..ROW
    },
    BuiltIn {
        group: "rbac.authorization.k8s.io",
        resource: "clusterrolebindings",
        kind: "ClusterRoleBinding",
        schema: "io.k8s.api.rbac.v1.ClusterRoleBinding",
        namespaced: false,
        columns: BINDING_COLUMNS,
        rules: &kinds::ROLE_BINDING,
        ..ROW
    },
    BuiltIn {
        group: "certificates.k8s.io",
        resource: "certificatesigningrequests",
        kind: "CertificateSigningRequest",
        schema: "io.k8s.api.certificates.v1.CertificateSigningRequest",
        short_names: &["csr"],
        namespaced: false,
        status: true,
        subresources: &[&kinds::APPROVAL],
        selectable: &["spec.signerName"],
        columns: &[
            ("Age", "string", Computed(cells::age)),
            ("SignerName", "string", Path(&["spec", "signerName"])),
            ("Requestor", "string", Path(&["spec", "username"])),
            ("RequestedDuration", "string", Computed(cells::request_life)),
            ("Condition", "string", Computed(cells::request_condition)),
        ],
        rules: &kinds::CERTIFICATE_SIGNING_REQUEST,
        ..ROW
    },
    BuiltIn {
        group: "authentication.k8s.io",
        resource: "tokenreviews",
        kind: "TokenReview",
        schema: "io.k8s.api.authentication.v1.TokenReview",
        namespaced: false,
        virtual_kind: Some(Virtual::TokenReview),
        ..ROW
    },
    BuiltIn {
        group: "authentication.k8s.io",
        resource: "selfsubjectreviews",
        kind: "SelfSubjectReview",
        schema: "io.k8s.api.authentication.v1.SelfSubjectReview",
        namespaced: false,
        virtual_kind: Some(Virtual::SelfSubjectReview),
        ..ROW
    },
    BuiltIn {
        group: "authorization.k8s.io",
        resource: "subjectaccessreviews",
        kind: "SubjectAccessReview",
        schema: "io.k8s.api.authorization.v1.SubjectAccessReview",
        namespaced: false,
        virtual_kind: Some(Virtual::SubjectAccessReview),
        ..ROW
    },
    BuiltIn {
        group: "authorization.k8s.io",
        resource: "localsubjectaccessreviews",
        kind: "LocalSubjectAccessReview",
        schema: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
        virtual_kind: Some(Virtual::LocalSubjectAccessReview),
        ..ROW
    },
    BuiltIn {
        group: "authorization.k8s.io",
        resource: "selfsubjectaccessreviews",
        kind: "SelfSubjectAccessReview",
        schema: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        namespaced: false,
        virtual_kind: Some(Virtual::SelfSubjectAccessReview),
        ..ROW
    },
    BuiltIn {
        group: "authorization.k8s.io",
        resource: "selfsubjectrulesreviews",
        kind: "SelfSubjectRulesReview",
        schema: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
        namespaced: false,
        virtual_kind: Some(Virtual::SelfSubjectRulesReview),
        ..ROW
    },
];
