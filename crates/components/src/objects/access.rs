//! The ServiceAccounts of the managers, and their permissions from `capstan_api::access` as roles and bindings.

use capstan_api::access::{GroupAccess, access, metrics_reader};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use super::Options;
use crate::Provider;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Upstream's name for it: a provider whose kinds are in a group of its own brings a ClusterRole with this label,
/// and so lets core look after them.
const AGGREGATE: &str = "cluster.x-k8s.io/aggregate-to-manager";

/// The rights of a provider's controllers.
pub(crate) fn access_of(provider: Provider) -> GroupAccess {
    let none = GroupAccess {
        controllers: provider.controllers(),
        everywhere: Vec::new(),
        own_namespace: Vec::new(),
        cluster_namespaces: Vec::new(),
    };
    access().into_iter().find(|group| group.controllers == provider.controllers()).unwrap_or(none)
}

pub(super) fn objects(provider: Provider, options: &Options) -> Vec<Value> {
    let rights = access_of(provider);
    let (manager, everywhere) = (provider.manager(), provider.cluster_role());
    let mut objects = vec![
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": manager, "namespace": options.namespace },
        }),
        cluster_role(&everywhere, &rights.everywhere),
        cluster_role_binding(provider, options, &everywhere),
    ];
    if provider == Provider::Core {
        let aggregated = format!("{}-aggregated", provider.namespace());
        objects.push(json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "ClusterRole",
            "metadata": { "name": aggregated },
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { AGGREGATE: "true" } }] },
            // Filled in by the plane.
            "rules": [],
        }));
        objects.push(cluster_role_binding(provider, options, &aggregated));
    }
    objects.extend([
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "Role",
            "metadata": { "name": manager, "namespace": options.namespace },
            "rules": rights.own_namespace,
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "RoleBinding",
            "metadata": { "name": manager, "namespace": options.namespace },
            "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": manager },
            "subjects": [subject(provider, &options.namespace)],
        }),
        // Bound in each namespace with clusters, by what the cluster templates bring, and nowhere else.
        cluster_role(&provider.namespace_role(), &rights.cluster_namespaces),
        // Bound by users to the account of their scraper.
        cluster_role(&provider.metrics_role(), &metrics_reader()),
    ]);
    objects
}

fn cluster_role(name: &str, rules: &[PolicyRule]) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": rules,
    })
}

fn cluster_role_binding(provider: Provider, options: &Options, role: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": { "name": role },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
        "subjects": [subject(provider, &options.namespace)],
    })
}

fn subject(provider: Provider, namespace: &str) -> Value {
    json!({ "kind": "ServiceAccount", "name": provider.manager(), "namespace": namespace })
}

/// What lets the managers into a namespace with clusters. The service account is named as the user that it is: in templates
/// clusterctl moves ServiceAccounts of any RoleBinding into the namespace of the cluster, where there are none.
pub(crate) fn binding_in(provider: Provider, namespace: &str) -> Value {
    let user = format!("system:serviceaccount:{}:{}", provider.namespace(), provider.manager());
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": { "name": provider.manager(), "namespace": namespace },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": provider.namespace_role() },
        "subjects": [{ "apiGroup": RBAC, "kind": "User", "name": user }],
    })
}
