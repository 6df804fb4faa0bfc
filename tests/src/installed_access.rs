//! What an installation grants to Capstan's managers, as manifests.

use capstan_api::access::GroupAccess;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The service account of a group in the namespace `home`, with its rights everywhere and there.
pub fn installed_access(group: &GroupAccess, home: &str) -> Vec<Value> {
    let (name, of_clusters) = (account(group), of_clusters(group));
    let role = |kind: &str, name: &str, namespace: Option<&str>, rules: &Value| {
        let metadata = json!({"name": name, "namespace": namespace});
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules})
    };
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": home}}),
        role("ClusterRole", &name, None, &json!(group.everywhere)),
        role("ClusterRole", &of_clusters, None, &json!(group.cluster_namespaces)),
        role("Role", &name, Some(home), &json!(group.own_namespace)),
        binding("ClusterRoleBinding", "ClusterRole", &name, None, group, home),
        binding("RoleBinding", "Role", &name, Some(home), group, home),
    ]
}

/// Lets a group that is installed in `home` work in a namespace with clusters.
pub fn let_in(group: &GroupAccess, home: &str, namespace: &str) -> Value {
    binding("RoleBinding", "ClusterRole", &of_clusters(group), Some(namespace), group, home)
}

/// Verb, API group and resource of a right that a group has once it is let into a namespace with clusters.
pub fn right_of_clusters(group: &GroupAccess) -> (String, String, String) {
    let rule = group.cluster_namespaces.first().expect("rights in namespaces with clusters");
    let first =
        |words: Option<&Vec<String>>| words.and_then(|words| words.first()).cloned().unwrap_or_default();
    (first(Some(&rule.verbs)), first(rule.api_groups.as_ref()), first(rule.resources.as_ref()))
}

fn account(group: &GroupAccess) -> String {
    format!("capstan-{}", group.controllers)
}

fn of_clusters(group: &GroupAccess) -> String {
    format!("capstan-{}-clusters", group.controllers)
}

fn binding(
    kind: &str,
    role: &str,
    name: &str,
    namespace: Option<&str>,
    group: &GroupAccess,
    home: &str,
) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account(group), "namespace": home}],
    })
}
